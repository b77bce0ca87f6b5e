//! Preconditions of tests. A test whose precondition is not met fails and names it, so that no test passes
//! without having run. A runner that knows the preconditions beforehand skips such tests and counts them.

use std::path::PathBuf;
use std::process::Command;

use crate::executables;

/// Panics unless the test runs as root.
pub fn require_root() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "only root can make the files, mounts and deployments of this test: run it as root");
}

/// Panics if one of these programs is not installed.
pub fn require_installed(programs: &[&str]) {
    if let Some(program) = executables::missing(programs) {
        panic!("{program} is not installed: `cargo xtask setup` installs the programs that the tests run");
    }
}

/// Return the folder with the executables of the next release; panics without them.
pub fn require_next_release() -> PathBuf {
    let folder = executables::next_release();
    folder.expect("FLAMEHOLDER_NEXT names no executables of the next release: `cargo xtask test` builds them")
}

/// Panics if no mount namespace can be made.
pub fn require_mount_namespaces() {
    require_root();
    let unshared = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).status();
    let is_permitted = unshared.is_ok_and(|status| status.success());
    assert!(is_permitted, "unshare(1) cannot make a mount namespace: run this test with CAP_SYS_ADMIN");
}

/// Panics if processes cannot be traced.
pub fn require_strace() {
    require_installed(&["strace"]);
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let is_permitted = traced.is_ok_and(|status| status.success());
    assert!(is_permitted, "strace cannot trace processes: run this test with CAP_SYS_PTRACE");
}
