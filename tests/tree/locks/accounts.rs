//! The lock of users and passwords, which `useradd` and `passwd` take too.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::{Value, json};
use testbed::model::document::with_files;
use testbed::model::run::{Outcome, program};
use testbed::strace::stopped::StoppedRun;

use crate::locks::BUSY;
use crate::locks::host::Host;

const LOCK: &str = "/etc/.pwd.lock";
const SHADOW: &str = "/etc/shadow";
/// More calls than an apply of one password has.
const CALLS: usize = 40;

fn with_password(name: &str, hash: &str) -> Value {
    let mut config = with_files(name, &[]);
    config["spec"]["config"]["passwd"] = json!({"users": [{"name": "core", "passwordHash": hash}]});
    config
}

/// Tree with the first password; the right config sets the second one.
fn tree() -> Host {
    Host::new(
        &with_password("rendered-left", "$6$salt$first"),
        &with_password("rendered-right", "$6$salt$second"),
    )
}

/// Takes the lock like lckpwdf(3), whose lock belongs to this process.
fn hold(host: &Host) -> File {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(host.tree.at(LOCK)).unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

fn start(host: &Host, desired: &Path) -> Child {
    let mut command = Command::new(program());
    command.args(host.line("apply", Some(desired))).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until the process has the lock file open, and so waits for the lock or is about to.
fn await_contender(host: &Host, child: &mut Child) {
    let lock = fs::canonicalize(host.tree.at(LOCK)).unwrap();
    let descriptors = format!("/proc/{}/fd", child.id());
    let is_open = || {
        let entries = fs::read_dir(&descriptors).into_iter().flatten();
        entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == lock))
    };
    while !is_open() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended without the lock");
        std::thread::yield_now();
    }
}

fn finished(child: Child) -> Outcome {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Adds an entry like `useradd`: a new file in place of the old one.
fn add_user(host: &Host) {
    let (path, new) = (host.tree.at(SHADOW), host.tree.at("/etc/shadow+"));
    fs::write(&new, host.text(SHADOW) + "operator:$6$other:20000::::::\n").unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn entry_that_was_added_under_the_lock_is_kept() {
    let host = tree();
    let lock = hold(&host);
    let mut child = start(&host, &host.right);
    await_contender(&host, &mut child);
    add_user(&host);
    drop(lock);
    let outcome = finished(child);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let shadow = host.text(SHADOW);
    assert!(shadow.contains("core:$6$salt$second:") && shadow.contains("operator:$6$other:"), "{shadow}");
    assert_eq!(host.runs("verify", None).code, Some(0));
}

#[test]
fn password_change_is_refused_while_the_lock_is_held() {
    let host = tree();
    let lock = hold(&host);
    let before = host.text(SHADOW);
    let outcome = host.runs("apply", Some(&host.right));
    assert_eq!(outcome.code, BUSY, "{outcome:?}");
    assert!(outcome.stderr.contains(LOCK) && outcome.stderr.contains("try again"), "{outcome:?}");
    assert_eq!(host.text(SHADOW), before);
    assert_eq!(host.runs("verify", None).code, Some(0));
    drop(lock);
    host.applies(&host.right);
    assert!(host.text(SHADOW).contains("core:$6$salt$second:"));
}

#[test]
fn change_without_users_needs_no_lock() {
    let host = Host::small();
    let lock = hold(&host);
    host.applies(&host.right);
    drop(lock);
}

#[test]
fn created_lock_file_belongs_to_root_alone() {
    let host = tree();
    fs::remove_file(host.tree.at(LOCK)).unwrap();
    host.applies(&host.right);
    assert_eq!(fs::metadata(host.tree.at(LOCK)).unwrap().permissions().mode() & 0o7777, 0o600);
}

/// The process is killed among its renames, and a user is added before the recovery.
#[test]
fn entry_that_was_added_before_a_recovery_is_kept() {
    testbed::preconditions::require_strace();
    let host = tree();
    let has_changed = |number: usize| {
        let stopped = StoppedRun::at(("renameat2", number), &host.line("apply", Some(&host.right)));
        stopped.kill();
        let is_new = host.text(SHADOW).contains("$6$salt$second");
        if is_new {
            add_user(&host);
        }
        let outcome = host.runs("recover", None);
        assert_eq!(outcome.code, Some(0), "call {number}: {outcome:?}");
        is_new
    };
    assert!((1..CALLS).any(has_changed), "no call changes the password");
    let shadow = host.text(SHADOW);
    assert!(shadow.contains("operator:$6$other:"), "{shadow}");
    // The password is not undone, which is reported.
    let outcome = host.runs("verify", None);
    assert!(outcome.code == Some(2) && outcome.stdout.contains(SHADOW), "{outcome:?}");
    host.applies(&host.left);
    let shadow = host.text(SHADOW);
    assert!(shadow.contains("core:$6$salt$first:") && shadow.contains("operator:"), "{shadow}");
}
