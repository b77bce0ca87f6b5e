//! Shutdowns at which the staged generation cannot be bound: the old system boots, wholly the old one, and says
//! why.

use std::fs;

use testbed::{
    booted::{
        config::{assert_config, full_config},
        host::{Host, WORKER, confirmed_host},
    },
    model::snapshot,
};

/// What a failure is like.
struct Expected {
    /// The failure's kind.
    kind: &'static str,
    /// A part of its reason.
    reason: &'static str,
}

/// Arms generation two on a host that runs generation one, has `spoil` get in the way, shuts down, has `mend`
/// take it out of the way, and goes to generation two after all.
fn fails(spoil: impl Fn(&Host), mend: impl Fn(&Host), expected: &Expected) {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    spoil(&host);
    let (entries, old) = (host.entries(), host.booted());
    let sight =
        || [old.at("etc"), host.sysroot().join("boot/loader/entries")].map(|path| snapshot::take(&path));
    let before = sight();
    let bound = host.shut_down().expect("something is staged");
    assert!(bound.code.is_some_and(|code| code != 0), "{bound:?}");
    assert!(!bound.stderr.contains("panicked"), "{bound:?}");
    assert_eq!(host.entries(), entries);
    for (now, before) in sight().iter().zip(&before) {
        assert_eq!(snapshot::changes(before, now), [""; 0], "{bound:?}");
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
fn without_the_worker() {
    let expected = Expected { kind: "config-not-written", reason: "flameholder-ostree" };
    fails(|host| host.remove_program(WORKER), Host::restore_worker, &expected);
}

#[test]
fn with_a_worker_that_dies() {
    let expected = Expected { kind: "config-not-written", reason: "SIGKILL" };
    fails(|host| host.put_script(WORKER, "#!/bin/sh\nkill -9 $$\n"), Host::restore_worker, &expected);
}

#[test]
fn with_a_directory_where_a_file_is_wanted() {
    let spoil = |host: &Host| host.write_etc("app/two.conf/somebody's", "own");
    let mend = |host: &Host| fs::remove_dir_all(host.etc("app/two.conf")).unwrap();
    fails(spoil, mend, &Expected { kind: "config-not-written", reason: "/etc/app/two.conf" });
}

#[test]
fn with_something_in_etc_that_libostree_cannot_merge() {
    // Where the image has a directory.
    let spoil = |host: &Host| {
        fs::remove_dir_all(host.etc("crio")).unwrap();
        fs::write(host.etc("crio"), "a file").unwrap();
    };
    let mend = |host: &Host| {
        fs::remove_file(host.etc("crio")).unwrap();
        host.write_etc("crio/crio.conf", "[crio]\n\n[crio.runtime]\nselinux = true\n");
    };
    fails(spoil, mend, &Expected { kind: "not-finalized", reason: "finalize-staged" });
}

#[test]
fn with_an_ostree_that_fails() {
    let spoil = |host: &Host| host.put_script("ostree", "#!/bin/sh\nexit 3");
    let expected = Expected { kind: "not-finalized", reason: "3" };
    fails(spoil, |host| host.remove_program("ostree"), &expected);
}

#[test]
fn with_an_ostree_that_does_nothing() {
    let spoil = |host: &Host| host.put_script("ostree", "#!/bin/sh\nexit 0");
    let expected =
        Expected { kind: "not-finalized", reason: "`ostree admin finalize-staged` did not finalize" };
    fails(spoil, |host| host.remove_program("ostree"), &expected);
}

#[test]
fn with_an_object_missing_from_the_store() {
    let spoil = |host: &Host| {
        let objects = host.var("lib/flameholder/objects");
        fs::rename(&objects, host.var("lib/flameholder/aside")).unwrap();
        fs::create_dir(&objects).unwrap();
    };
    let mend = |host: &Host| {
        fs::remove_dir_all(host.var("lib/flameholder/objects")).unwrap();
        fs::rename(host.var("lib/flameholder/aside"), host.var("lib/flameholder/objects")).unwrap();
    };
    fails(spoil, mend, &Expected { kind: "config-not-written", reason: "objects" });
}

#[test]
fn with_the_power_gone() {
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
fn with_the_pending_generation_damaged() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    let path = host.var("lib/flameholder/pending");
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (entries, old) = (host.entries(), host.booted());
    let bound = host.shut_down().unwrap();
    assert!(bound.code == Some(1) && bound.stderr.contains("is damaged"), "{bound:?}");
    assert_eq!(host.entries(), entries);
    // What runs is whole, and the workload starts. The file has to be looked after.
    let boot = host.boot();
    assert_eq!(host.booted().root, old.root);
    assert_eq!((boot.activate.code, boot.recover.code), (Some(0), Some(1)), "{boot:?}");
    assert!(boot.recover.stderr.contains("remove the file"), "{boot:?}");
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    fs::remove_file(&path).unwrap();
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

/// So it is where `apply` is killed while another generation takes the place of one that was armed.
#[test]
fn with_nothing_pending_any_more() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    fs::remove_file(host.var("lib/flameholder/pending")).unwrap();
    let entries = host.entries();
    let bound = host.shut_down().unwrap();
    assert!(bound.code == Some(1) && bound.stderr.contains("is not finalized"), "{bound:?}");
    assert_eq!(host.entries(), entries);
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}
