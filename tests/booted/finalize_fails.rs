//! Shutdowns at which the staged generation cannot be finalized: the old deployment boots, unchanged, and `recover`
//! reports the reason.

use std::fs;

use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, WORKER, confirmed_host};
use testbed::model::snapshot;

/// The failure that `recover` records.
struct Expected {
    kind: &'static str,
    /// Part of the recorded reason.
    reason: &'static str,
}

/// Unlocks generation two on a host that runs generation one, lets `spoil` obstruct the shutdown, boots generation
/// one, lets `mend` remove the obstruction, and updates to generation two.
fn ensure_finalize_fails(spoil: impl Fn(&Host), mend: impl Fn(&Host), expected: &Expected) {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    spoil(&host);
    let (entries, old) = (host.entries(), host.booted());
    let contents =
        || [old.at("etc"), host.sysroot().join("boot/loader/entries")].map(|path| snapshot::take(&path));
    let before = contents();
    let finalized = host.shut_down().expect("a deployment is staged");
    assert!(finalized.code.is_some_and(|code| code != 0), "{finalized:?}");
    assert!(!finalized.stderr.contains("panicked"), "{finalized:?}");
    assert_eq!(host.entries(), entries);
    for (now, before) in contents().iter().zip(&before) {
        assert_eq!(snapshot::changes(before, now), [""; 0], "{finalized:?}");
    }
    mend(&host);
    let boot = host.boot().assert_success();
    assert_eq!(host.booted().root, old.root);
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    assert!(boot.recover.stdout.contains(expected.reason), "{boot:?} does not say {}", expected.reason);
    let pending = host.status()["pending"].clone();
    assert_eq!(pending["failure"]["kind"], expected.kind, "{pending}");
    assert_eq!(pending["unlocked"], false, "{pending}");
    let text = host.run_ok(["flameholder", "status"]);
    assert!(text.contains("the last attempt to boot it failed"), "{text}");
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn missing_worker_leaves_old_generation() {
    let expected = Expected { kind: "config-not-written", reason: "flameholder-ostree" };
    ensure_finalize_fails(|host| host.remove_program(WORKER), Host::restore_worker, &expected);
}

#[test]
fn killed_worker_leaves_old_generation() {
    let expected = Expected { kind: "config-not-written", reason: "SIGKILL" };
    ensure_finalize_fails(
        |host| host.put_script(WORKER, "#!/bin/sh\nkill -9 $$\n"),
        Host::restore_worker,
        &expected,
    );
}

#[test]
fn directory_in_place_of_file_leaves_old_generation() {
    let spoil = |host: &Host| host.write_etc("app/two.conf/local", "a local file");
    let mend = |host: &Host| fs::remove_dir_all(host.etc("app/two.conf")).unwrap();
    ensure_finalize_fails(spoil, mend, &Expected { kind: "config-not-written", reason: "/etc/app/two.conf" });
}

#[test]
fn etc_that_libostree_cannot_merge_leaves_old_generation() {
    // The image has a directory there.
    let spoil = |host: &Host| {
        fs::remove_dir_all(host.etc("crio")).unwrap();
        fs::write(host.etc("crio"), "a file").unwrap();
    };
    let mend = |host: &Host| {
        fs::remove_file(host.etc("crio")).unwrap();
        host.write_etc("crio/crio.conf", "[crio]\n\n[crio.runtime]\nselinux = true\n");
    };
    ensure_finalize_fails(spoil, mend, &Expected { kind: "not-finalized", reason: "finalize-staged" });
}

#[test]
fn failing_ostree_leaves_old_generation() {
    let spoil = |host: &Host| host.put_script("ostree", "#!/bin/sh\nexit 3");
    let expected = Expected { kind: "not-finalized", reason: "3" };
    ensure_finalize_fails(spoil, |host| host.remove_program("ostree"), &expected);
}

#[test]
fn ostree_without_effect_leaves_old_generation() {
    let spoil = |host: &Host| host.put_script("ostree", "#!/bin/sh\nexit 0");
    let expected =
        Expected { kind: "not-finalized", reason: "`ostree admin finalize-staged` did not finalize" };
    ensure_finalize_fails(spoil, |host| host.remove_program("ostree"), &expected);
}

#[test]
fn missing_objects_do_not_stop_an_update() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(full_config("two").json()), None);
    // The config of the new generation, in its /etc, holds every byte of them.
    fs::remove_dir_all(host.var("lib/flameholder/objects")).unwrap();
    host.reboot();
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn power_cut_leaves_old_generation() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    host.power_cut();
    let boot = host.boot().assert_success();
    assert!(boot.recover.stdout.contains("left no reason"), "{boot:?}");
    assert_eq!(host.status()["pending"]["failure"]["kind"], "interrupted");
    assert_config(&host, "one", "two");
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn damaged_pending_file_leaves_old_generation() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    let path = host.var("lib/flameholder/pending");
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (entries, old) = (host.entries(), host.booted());
    let finalized = host.shut_down().unwrap();
    assert!(finalized.code == Some(1) && finalized.stderr.contains("is damaged"), "{finalized:?}");
    assert_eq!(host.entries(), entries);
    // The running generation is complete, so the workload starts. The record is in the way of nothing.
    let boot = host.boot().assert_success();
    assert_eq!(host.booted().root, old.root);
    assert!(boot.recover.stderr.contains("it is set aside"), "{boot:?}");
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

/// `apply` leaves this when it is killed while it replaces an unlocked generation.
#[test]
fn unlocked_deployment_without_pending_file_is_not_finalized() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    fs::remove_file(host.var("lib/flameholder/pending")).unwrap();
    let entries = host.entries();
    let finalized = host.shut_down().unwrap();
    assert!(finalized.code == Some(1) && finalized.stderr.contains("is not finalized"), "{finalized:?}");
    assert_eq!(host.entries(), entries);
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}
