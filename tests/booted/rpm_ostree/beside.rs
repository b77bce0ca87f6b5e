//! The choice between rpm-ostreed and libostree, and deployments of one that the other sees.

use std::collections::HashMap;
use std::fs;

use osimage::Os;
use rpmostreed::{Faults, NAME, TOP};
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};
use zbus::zvariant::OwnedValue;

use crate::rpm_ostree::client::DaemonHost;
use crate::rpm_ostree::peers::bus::{Bus, address, fail};
use crate::rpm_ostree::peers::stranger::Stranger;

/// The deployments as the daemon lists them after a reload.
fn deployments_of_daemon(fixture: &DaemonHost) -> Vec<HashMap<String, OwnedValue>> {
    let host = &fixture.host;
    fixture.runtime.block_on(async {
        let bus = zbus::connection::Builder::address(address(host).as_str()).unwrap().build().await.unwrap();
        let path = format!("{TOP}/Sysroot");
        let interface = format!("{NAME}.Sysroot");
        let call = async |interface: &str, method: &str, body: &[String]| match body {
            [] => bus.call_method(Some(NAME), path.as_str(), Some(interface), method, &()).await.unwrap(),
            [a, b, ..] => {
                bus.call_method(Some(NAME), path.as_str(), Some(interface), method, &(a, b)).await.unwrap()
            }
            [_] => unreachable!("no method has one argument"),
        };
        call(&interface, "Reload", &[]).await;
        let asked = [interface.clone(), "Deployments".to_owned()];
        let got = call("org.freedesktop.DBus.Properties", "Get", &asked).await;
        let value: OwnedValue = got.body().deserialize().unwrap();
        Vec::try_from(value).unwrap()
    })
}

#[test]
fn files_update_bypasses_the_daemon_which_sees_its_deployment() {
    let fixture =
        DaemonHost::new(&Faults { refuse: Some("no request is expected".into()), ..Faults::default() });
    let host = &fixture.host;
    let config = host.config(full_config("one").json());
    fs::remove_dir_all(host.path("media/images")).unwrap();
    let staged = || {
        let all = deployments_of_daemon(&fixture);
        let staged: Vec<_> = all.iter().filter(|one| bool::try_from(&one["staged"]).unwrap()).collect();
        assert_eq!(staged.len(), 1, "the daemon lists the deployment that libostree staged");
        staged[0].contains_key("finalization-locked")
    };
    let stage = ["flameholder", "apply", "--desired", &config, "--locked"];
    host.run_ok(stage);
    assert_eq!(host.status()["pending"]["rpmOstreeTransactions"], 0);
    assert!(staged(), "the daemon shows the lock");
    let shown = host.run_ok(["flameholder", "status"]);
    assert!(shown.contains("(staged, locked)") && shown.contains("(booted, boots next"), "{shown}");
    assert_unlocked(&host.apply(&config, None));
    assert!(!staged(), "the daemon reads the deployments again");
    let shown = host.run_ok(["flameholder", "status"]);
    assert!(shown.contains("(boots next, staged)"), "{shown}");
}

#[test]
fn reason_of_a_rollback_by_rpm_ostree_names_it() {
    let (host, _) = crate::boot_menu::two_after_one();
    let bus = Bus::start_for_tests(&host, 60_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (success, text) =
        runtime.block_on(async { Stranger::connect_to(&host).await.roll_back(&host).await });
    assert!(success, "{text}");
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
    let reason = host.status()["blocked"]["reason"].clone();
    assert!(reason.as_str().unwrap().contains("as `rpm-ostree rollback` does"), "{reason}");
}

/// An overlay of the initramfs (`rpm-ostree initramfs-etc`) belongs to a deployment.
#[test]
fn rollback_takes_the_overlay_of_its_target() {
    let host = Host::install(Os::new(1));
    fs::write(host.path("media/overlay"), "an initramfs").unwrap();
    let deploy = ["ostree", "admin", "deploy", "--os=fedora-coreos"];
    let commit = host.booted().id().0;
    host.run_ok([&deploy[..], &["--overlay-initrd=/run/media/overlay", &commit]].concat());
    host.reboot();
    host.update(&host.config(full_config("one").json()), None);
    let overlays = host.booted().overlays;
    assert_eq!(overlays.len(), 1, "an update keeps it");
    // Another program deploys the same commit without it, and generation two is based on that.
    host.run_ok([&deploy[..], &["--no-merge", &commit]].concat());
    host.run_ok(["ostree", "admin", "pin", "1"]);
    host.reboot();
    host.update(&host.config(full_config("two").json()), None);
    assert_eq!(host.booted().overlays, Vec::<String>::new());
    assert_unlocked(&host.run(["flameholder", "rollback"]));
    host.reboot();
    assert_config(&host, "one", "two");
    assert_eq!(host.booted().overlays, overlays);
}

#[test]
fn libostree_replaces_a_missing_daemon_only_where_configured() {
    let host = Host::install(Os::new(1));
    let (config, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let base = ["flameholder", "apply", "--desired", &config, "--os-image", &image, "--os-backend"];
    let with = |backend: &str| host.run([&base[..], &[backend]].concat());
    let refused = with("rpm-ostree");
    assert!(
        refused.code == Some(1) && refused.stderr.contains("rpm-ostreed cannot be reached"),
        "{refused:?}"
    );
    assert_unlocked(&with("auto"));
    assert_eq!(host.status()["pending"]["rpmOstreeTransactions"], 0);
    host.reboot();
    assert_config(&host, "one", "two");
    // With the libostree backend, a running daemon is not called.
    let bus = Bus::start(&host);
    fail(&host, &Faults { refuse: Some("no request is expected".into()), ..Faults::default() });
    let (config, image) = (host.config(full_config("two").json()), host.image(&Os::new(3)));
    host.write_etc("flameholder/config.d/50-backend.toml", "[image]\nbackend = \"libostree\"\n");
    let base = ["flameholder", "apply", "--desired", &config, "--os-image", &image];
    let refused = host.run([&base[..], &["--os-backend", "rpm-ostree"]].concat());
    assert!(refused.code == Some(1) && refused.stderr.contains("no request is expected"), "{refused:?}");
    assert_unlocked(&host.run(base));
    assert_eq!(host.status()["pending"]["rpmOstreeTransactions"], 0);
    drop(bus);
    host.reboot();
    assert_config(&host, "two", "one");
    assert!(host.etc("os/version-3.conf").exists());
}

#[test]
fn unmoved_tag_changes_nothing() {
    let host = Host::install(Os::new(1));
    let (config, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&config, Some(&image)));
    drop(bus);
    host.reboot();
    let _bus = Bus::start(&host);
    let again = host.apply(&config, Some(&image));
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
    assert!(!host.is_staged(), "{again:?}");
}

#[test]
fn foreign_staged_deployment_is_not_touched() {
    let host = Host::install(Os::new(1));
    let (config, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let _bus = Bus::start(&host);
    let foreign = host.booted().id().0;
    host.run_ok([
        "ostree",
        "admin",
        "deploy",
        "--stage",
        "--os=fedora-coreos",
        "--karg-append=foreign",
        &foreign,
    ]);
    let refused = host.apply(&config, Some(&image));
    assert!(refused.code == Some(1) && refused.stderr.contains("is staged already"), "{refused:?}");
    assert!(host.is_staged());
    host.run_ok(["ostree", "admin", "undeploy", "0"]);
    assert_unlocked(&host.apply(&config, Some(&image)));
}

#[test]
fn another_config_replaces_the_staged_generation() {
    let host = Host::install(Os::new(1));
    let (one, first) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let (two, second) = (host.config(full_config("two").json()), host.image(&Os::new(3)));
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&one, Some(&first)));
    assert_unlocked(&host.apply(&two, Some(&second)));
    drop(bus);
    host.reboot();
    assert_config(&host, "two", "one");
    assert!(host.etc("os/version-3.conf").exists());
    host.assert_no_drift();
}
