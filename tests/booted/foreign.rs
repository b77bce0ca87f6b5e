//! Deployments made by other programs, before, after and instead of ours.

use osimage::Os;
use serde_json::Value;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, confirmed_host};

/// Stages a present commit with `ostree`, as another program would.
pub(crate) fn stage(host: &Host) -> String {
    let commit = host.booted().id().0;
    host.run_ok(["ostree", "admin", "deploy", "--stage", "--os=fedora-coreos", &commit]);
    commit
}

#[test]
fn foreign_staged_deployment_is_not_discarded() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    stage(&host);
    let refused = host.apply(&two, None);
    assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
    assert!(refused.stderr.contains("staged"), "{refused:?}");
    assert!(host.is_staged());
    assert_eq!(host.status()["pending"], Value::Null);
    host.run_ok(["ostree", "admin", "undeploy", "0"]);
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn interrupted_change_is_undone_before_another_programs_deployment_is_made_of_it() {
    testbed::preconditions::require_strace();
    let host = confirmed_host("one");
    let live = full_config("one").file_with_mode("/etc/nmstate/openshift/cluster.yml", 0o644, "live");
    let apply = format!("flameholder apply --desired {}", host.config(live.json()));
    let is_torn = |number: &usize| {
        let place = testbed::strace::injection("renameat2", *number, "KILL");
        let killed =
            host.run(["sh", "-c", &format!("strace -o /dev/null -e trace=renameat2 -e {place} {apply}")]);
        assert_eq!(killed.code, Some(137), "{killed:?}");
        host.read_etc("nmstate/openshift/cluster.yml").is_some()
    };
    (1..1000).find(is_torn).unwrap();
    stage(&host);
    let before = host.booted();
    host.reboot();
    assert_ne!(host.booted().root, before.root, "the foreign deployment boots");
    for etc in [host.booted().at("etc"), before.at("etc")] {
        assert!(!etc.join("nmstate/openshift/cluster.yml").exists(), "{}", etc.display());
        assert!(!etc.join(".flameholder.d").exists(), "{}", etc.display());
    }
    assert!(!host.var("lib/flameholder/journal").exists());
}

#[test]
fn pending_generation_is_dropped_when_another_program_stages() {
    let host = confirmed_host("one");
    let (two, ours) = (host.config(full_config("two").json()), host.booted());
    host.run_ok(["flameholder", "apply", "--desired", &two, "--locked"]);
    stage(&host);
    let refused = host.apply(&two, None);
    assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
    let told = host.run_ok(["flameholder", "recover"]);
    assert!(told.contains("discarded"), "{told}");
    assert_eq!(host.status()["pending"], Value::Null);
    // The finalization lock of our deployment stays and may belong to the other: its owner has to unlock it.
    host.reboot();
    assert_eq!(host.booted().root, ours.root);
    stage(&host);
    let boot = host.reboot();
    assert_ne!(host.booted().root, ours.root, "the foreign deployment boots: {boot:?}");
    assert!(boot.activate.stdout.contains("not made by flameholder"), "{boot:?}");
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"), "it was merged from ours");
    let status = host.status();
    assert_eq!(status["deployments"][0]["generation"]["recordMatches"], false, "{status}");
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn foreign_deployment_staged_over_ours_boots() {
    let host = confirmed_host("one");
    let (two, ours) = (host.config(full_config("two").json()), host.booted());
    host.stage_update(&two, None);
    stage(&host);
    let boot = host.reboot();
    assert_ne!(host.booted().root, ours.root, "the foreign deployment boots: {boot:?}");
    assert!(boot.recover.stdout.contains("is dropped"), "{boot:?}");
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"));
    assert_eq!(host.status()["pending"], Value::Null);
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn pinned_deployment_is_kept() {
    let host = confirmed_host("one");
    let pinned = host.booted();
    host.run_ok(["ostree", "admin", "pin", "0"]);
    for (text, other) in [("two", "one"), ("three", "two"), ("four", "three")] {
        let config = host.config(full_config(text).json());
        host.update(&config, None);
        assert_config(&host, text, other);
        assert!(host.entries().iter().any(|entry| entry.root == pinned.root), "{text}");
        // The booted, the previous and the pinned deployment. At first the previous one is the pinned one.
        assert_eq!(host.entries().len(), if text == "two" { 2 } else { 3 });
    }
    let number = host.entries().iter().position(|entry| entry.root == pinned.root).unwrap();
    host.shut_down();
    host.boot_entry(number).assert_success();
    assert_eq!(host.booted().root, pinned.root);
    assert_config(&host, "one", "four");
}

#[test]
fn foreign_deployment_is_followed_by_a_generation() {
    let host = confirmed_host("one");
    let (one, image) = (host.config(full_config("one").json()), host.image(&Os::new(3)));
    stage(&host);
    host.reboot();
    host.update(&one, Some(&image));
    assert_config(&host, "one", "two");
    host.assert_no_drift();
}
