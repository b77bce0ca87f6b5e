//! The conditions of the machine that a test needs. A test whose condition does not hold fails and says which: it never
//! passes without having run. A runner that knows beforehand leaves such tests out, and counts them.

use std::process::Command;

use crate::executables;

/// Fails where the test is not run by root.
pub fn require_root() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "only root can make the files, mounts and deployments of this test: run it as root");
}

/// Fails where one of these programs is not installed.
pub fn require_installed(programs: &[&str]) {
    if let Some(program) = executables::missing(programs) {
        panic!("{program} is not installed: `cargo xtask setup` installs the programs that the tests run");
    }
}

/// Fails where no mount namespaces can be made.
pub fn require_mount_namespaces() {
    require_root();
    let unshared = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).status();
    let is_permitted = unshared.is_ok_and(|status| status.success());
    assert!(
        is_permitted,
        "unshare(1) makes no mount namespaces here: run this test where CAP_SYS_ADMIN is to be had"
    );
}

/// Fails where processes cannot be traced.
pub fn require_strace() {
    require_installed(&["strace"]);
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let is_permitted = traced.is_ok_and(|status| status.success());
    assert!(
        is_permitted,
        "strace may trace no process here: run this test where CAP_SYS_PTRACE is to be had"
    );
}
