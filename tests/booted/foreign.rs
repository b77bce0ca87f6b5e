//! Deployments that somebody else makes, before, after and instead of ours.

use osimage::Os;
use serde_json::Value;

use testbed::booted::{
    config::{ensure_is, whole},
    host::{Host, settled},
};

/// Somebody stages a commit that is there.
fn stage(host: &Host) -> String {
    let commit = host.booted().id().0;
    host.must(["ostree", "admin", "deploy", "--stage", "--os=fedora-coreos", &commit]);
    commit
}

#[test]
fn what_others_staged_is_not_discarded() {
    let host = settled("one");
    let two = host.config(whole("two").json());
    stage(&host);
    let refused = host.apply(&two, None);
    assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
    assert!(refused.stderr.contains("staged"), "{refused:?}");
    assert!(host.is_staged());
    assert_eq!(host.status()["pending"], Value::Null);
    host.must(["ostree", "admin", "undeploy", "0"]);
    host.update(&two, None);
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}

#[test]
fn ours_is_forgotten_when_others_stage_over_it() {
    let host = settled("one");
    let (two, ours) = (host.config(whole("two").json()), host.booted());
    host.must(["flameholder", "apply", "--desired", &two, "--reboot", "never"]);
    stage(&host);
    let refused = host.apply(&two, None);
    assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
    let told = host.must(["flameholder", "recover"]);
    assert!(told.contains("discarded"), "{told}");
    assert_eq!(host.status()["pending"], Value::Null);
    // The lock that ours was staged with stays, and may be theirs: whoever made the deployment has to unlock it.
    host.reboot();
    assert_eq!(host.booted().root, ours.root);
    stage(&host);
    let boot = host.reboot();
    assert_ne!(host.booted().root, ours.root, "theirs boots: {boot:?}");
    assert!(boot.activate.stdout.contains("not made by flameholder"), "{boot:?}");
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"), "it was merged from ours");
    let status = host.status();
    assert_eq!(status["deployments"][0]["generation"]["recordMatches"], false, "{status}");
    host.update(&two, None);
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}

#[test]
fn what_others_stage_over_ours_unseen_is_passed_through() {
    let host = settled("one");
    let (two, ours) = (host.config(whole("two").json()), host.booted());
    host.arm(&two, None);
    stage(&host);
    let boot = host.reboot();
    assert_ne!(host.booted().root, ours.root, "theirs boots: {boot:?}");
    assert!(boot.recover.stdout.contains("forgotten"), "{boot:?}");
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"));
    assert_eq!(host.status()["pending"], Value::Null);
    host.update(&two, None);
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}

#[test]
fn a_pinned_deployment_stays() {
    let host = settled("one");
    let pinned = host.booted();
    host.must(["ostree", "admin", "pin", "0"]);
    for (text, other) in [("two", "one"), ("three", "two"), ("four", "three")] {
        let config = host.config(whole(text).json());
        host.update(&config, None);
        ensure_is(&host, text, other);
        assert!(host.entries().iter().any(|entry| entry.root == pinned.root), "{text}");
        // What runs, the one before it, and the pinned one, which at first is the one before.
        assert_eq!(host.entries().len(), if text == "two" { 2 } else { 3 });
    }
    let number = host.entries().iter().position(|entry| entry.root == pinned.root).unwrap();
    host.shut_down();
    host.boot_entry(number).ensure_fine();
    assert_eq!(host.booted().root, pinned.root);
    ensure_is(&host, "one", "four");
}

#[test]
fn an_image_of_others_is_made_a_generation() {
    let host = settled("one");
    let (one, image) = (host.config(whole("one").json()), host.image(&Os::new(3)));
    stage(&host);
    host.reboot();
    host.update(&one, Some(&image));
    ensure_is(&host, "one", "two");
    host.ensure_whole();
}
