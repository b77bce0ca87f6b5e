//! Executables that the tests run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Executable under test: the one that was built with the tests, or the one that `FLAMEHOLDER_BINARY` names.
pub fn flameholder() -> PathBuf {
    env::var_os("FLAMEHOLDER_BINARY").map_or_else(|| built("flameholder"), PathBuf::from)
}

/// Return true if TLS is linked into the executable under test, false if it uses the host's OpenSSL.
pub fn has_tls_of_its_own() -> bool {
    let output = Command::new(flameholder()).arg("--version").output().expect("the executable runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(version.contains("\nTLS: "), "{version}");
    version.contains("\nTLS: rustls")
}

/// Worker that was built with the tests.
pub fn worker() -> PathBuf {
    built("flameholder-ostree")
}

/// Folder with the executables of the next release, which `cargo xtask test` builds; `None` without them.
pub fn next_release() -> Option<PathBuf> {
    env::var_os("FLAMEHOLDER_NEXT").map(PathBuf::from)
}

/// Executable of the package, which cargo builds with the package's tests one folder above them.
pub fn built(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the path of the test's executable is known");
    let folder = test.parent().and_then(Path::parent).expect("the test lies in a profile's `deps`");
    let executable = folder.join(name);
    assert!(
        executable.is_file(),
        "{} is missing: `cargo test --package flameholder` builds it with the tests that need it",
        executable.display()
    );
    executable
}

/// First of these programs that is not installed.
pub fn missing<'p>(programs: &[&'p str]) -> Option<&'p str> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |program: &str| env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    programs.iter().copied().find(|program| !is_installed(program))
}
