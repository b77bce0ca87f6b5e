//! Worker sessions that are refused, abandoned or interrupted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flameholder::os::{DeploymentOrigin, OsError, PullPhase, Sysroot as _};
use osimage::Os;
use rustix::process::{Pid, Signal, kill_process};
use testbed::worker::{Host, program, worker_after};

#[test]
fn one_session_writes_while_others_read() {
    let host = Host::new();
    let writing = host.write();
    let OsError::Busy { sysroot, holder } = host.write_with(&program()).unwrap_err() else {
        panic!("the sysroot is locked")
    };
    let process = format!("flameholder-ost (process {})", writing.process_id());
    assert_eq!((sysroot, holder), (host.sysroot(), Some(process)));
    assert_eq!(host.deployments().len(), 1);
    drop(writing);
    host.write();
}

#[test]
fn reading_session_changes_nothing() {
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
fn abandoned_deployment_does_not_boot_and_is_replaced() {
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
fn client_killed_during_import_leaves_host_unchanged() {
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
fn killed_worker_is_reported_with_its_signal() {
    let host = Host::new();
    let entries = host.boot_entries();
    let image = host.image(&Os::new(2), "v2");
    let mut session = host.write();
    let worker = Pid::from_raw(session.process_id().cast_signed()).unwrap();
    let error = session
        .import(&image.clone().into(), &mut |step| {
            if step.phase == PullPhase::Layers {
                // The worker has ended already where several steps were reported at once.
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
fn read_only_file_system_is_reported() {
    let host = Host::new();
    let sysroot = host.sysroot();
    let sysroot = sysroot.display();
    let script = format!("mount --bind {sysroot} {sysroot}\nmount -o remount,bind,ro {sysroot}");
    let program = worker_after(&host, &script);
    let error = host.write_with(&program).unwrap_err();
    assert!(matches!(error, OsError::ReadOnly { .. }), "{error}");
}

#[test]
fn full_file_system_is_reported() {
    let host = Host::new();
    let image = host.image(&Os::new(2), "v2");
    let sysroot = host.sysroot();
    let copy = host.path("copy");
    // 64 KiB of free space: enough to open the sysroot, too little for an OS.
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
