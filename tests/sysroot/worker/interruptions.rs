//! Sessions that are refused, abandoned or cut off.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flameholder::os::{DeploymentOrigin, OsError, PullPhase, Sysroot as _};
use osimage::Os;
use rustix::process::{Pid, Signal, kill_process};

use testbed::worker::{Host, program, worker_after};

#[test]
fn one_session_writes_at_a_time_and_others_may_read() {
    let host = Host::new();
    let writing = host.write();
    let error = host.write_with(&program()).unwrap_err();
    assert_eq!(error, OsError::Busy { sysroot: host.sysroot() });
    assert_eq!(host.deployments().len(), 1);
    drop(writing);
    host.write();
}

#[test]
fn a_reading_session_changes_nothing() {
    let host = Host::new();
    let mut session = host.read();
    let default = host.default();
    let request = host.request(&default.id.commit, DeploymentOrigin::MergeDeployment);
    for error in [
        session.deploy(&request).unwrap_err(),
        session.set_default(&default.id).unwrap_err(),
        session.import(&host.layout("any").into(), &mut |_| ()).unwrap_err(),
        session.finish().unwrap_err(),
    ] {
        assert!(matches!(error, OsError::Protocol { .. }), "{error}");
    }
}

#[test]
fn an_abandoned_deployment_does_not_boot_and_is_not_in_the_way() {
    let host = Host::new();
    let entries = host.boot_entries();
    let request = host.request(&host.default().id.commit, DeploymentOrigin::MergeDeployment);
    let abandoned = host.write().deploy(&request).unwrap();
    assert_eq!(host.boot_entries(), entries);
    assert_eq!(host.deployments().len(), 1);

    let new = host.update(&Os::new(2));
    assert_eq!(host.default(), new);
    assert!(!host.root_of(&abandoned.id).exists());
}

#[test]
fn a_client_that_dies_during_an_import_leaves_the_host_as_it_was() {
    let host = Host::new();
    let entries = host.boot_entries();
    let image = host.image(&Os::new(2), "v2");
    let mut session = host.write();
    let died = catch_unwind(AssertUnwindSafe(move || {
        session.import(&image.clone().into(), &mut |step| {
            assert_ne!(step.phase, PullPhase::Layers, "the client dies here");
        })
    }));
    assert!(died.is_err());
    assert_eq!(host.boot_entries(), entries);
    let new = host.update(&Os::new(2));
    assert_eq!(host.default(), new);
}

#[test]
fn a_worker_that_is_killed_is_reported_with_its_signal() {
    let host = Host::new();
    let entries = host.boot_entries();
    let image = host.image(&Os::new(2), "v2");
    let mut session = host.write();
    let worker = Pid::from_raw(session.process_id().cast_signed()).unwrap();
    let error = session
        .import(&image.clone().into(), &mut |step| {
            if step.phase == PullPhase::Layers {
                // It is dead already where several steps were told at once.
                let _ = kill_process(worker, Signal::KILL);
            }
        })
        .unwrap_err();
    assert!(matches!(&error, OsError::WorkerDied { status, .. } if status.contains("SIGKILL")), "{error}");
    let again = session.deployments().unwrap_err();
    assert!(matches!(again, OsError::WorkerDied { .. }), "{again}");
    assert_eq!(host.boot_entries(), entries);
    host.update(&Os::new(2));
}

#[test]
fn a_read_only_file_system_is_told_as_such() {
    let host = Host::new();
    let sysroot = host.sysroot();
    let sysroot = sysroot.display();
    let script = format!("mount --bind {sysroot} {sysroot}\nmount -o remount,bind,ro {sysroot}");
    let program = worker_after(&host, &script);
    let error = host.write_with(&program).unwrap_err();
    assert!(matches!(error, OsError::ReadOnly { .. }), "{error}");
}

#[test]
fn a_full_file_system_is_told_as_such() {
    let host = Host::new();
    let image = host.image(&Os::new(2), "v2");
    let sysroot = host.sysroot();
    let copy = host.path("copy");
    // 64 KiB are left: enough to open the sysroot, too little for an OS.
    let script = format!(
        "mkdir {copy}\nmount -t tmpfs -o size=64m tmpfs {copy}\ncp -a {sysroot}/. {copy}\n\
         free=$(df --output=avail -k {copy} | tail -n 1)\nfallocate -l $((free - 64))KiB {copy}/filler\n\
         mount --bind {copy} {sysroot}",
        copy = copy.display(),
        sysroot = sysroot.display(),
    );
    let program = worker_after(&host, &script);
    let mut session = host.write_with(&program).unwrap();
    let error = session.import(&image.clone().into(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, OsError::NoSpace { .. }), "{error}");
}
