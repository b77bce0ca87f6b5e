//! An update without any disturbance.

use osimage::Os;
use serde_json::Value;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::Host;
use testbed::model::snapshot;

#[test]
fn update_is_complete_after_boot() {
    let host = Host::install(Os::new(1));
    let (first, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let old = host.booted();
    host.stage_update(&first, Some(&image));
    assert_eq!(host.default(), old, "the default boot entry is still the old one");
    host.write_etc("late.conf", "written after staging");
    host.write_etc("chrony.conf", "changed here");
    let before = snapshot::take(&old.at("etc"));
    let finalized = host.shut_down().unwrap();
    assert_eq!(finalized.code, Some(0), "{finalized:?}");
    assert_eq!(snapshot::take(&old.at("etc")), before, "the old /etc is not touched");
    assert!(
        !host.var("usrlocal/bin/tool").exists(),
        "nothing outside /etc changes before the new deployment boots"
    );
    let boot = host.boot().assert_success();
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_config(&host, "one", "two");
    assert_eq!(host.core_keys(), "ssh-ed25519 AAAA one\n");
    assert_eq!(host.read_etc("late.conf").as_deref(), Some("written after staging"));
    assert_eq!(host.read_etc("chrony.conf").as_deref(), Some("changed here"));
    assert!(host.etc("os/version-2.conf").exists() && !host.etc("os/version-1.conf").exists());
    host.assert_no_drift();
    let status = host.status();
    assert_eq!((&status["pending"], &status["blocked"]), (&Value::Null, &Value::Null), "{status}");
    assert_eq!(status["deployments"][0]["generation"]["config"], "rendered-one", "{status}");
    assert_eq!(status["deployments"][0]["booted"], true, "{status}");
    let planned = host.run(["flameholder", "plan", "--exit-code", "--desired", &first, "--os-image", &image]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let again = host.apply(&first, Some(&image));
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
}
