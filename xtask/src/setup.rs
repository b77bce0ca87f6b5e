//! Finds what the distribution must supply, and installs it after asking.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use crate::consent::Consent;
use crate::invocation;
use crate::packages::{Family, Probe, Requirement, listing};

const REQUIREMENTS: &[Requirement] = &[
    require(Probe::Program("pkg-config"), ["pkg-config", "pkgconf-pkg-config"], "finds the libraries below"),
    require(
        Probe::Library("ostree-1"),
        ["libostree-dev", "ostree-devel"],
        "deployments; linked by the worker",
    ),
    require(Probe::Library("gio-2.0"), ["libglib2.0-dev", "glib2-devel"], "libostree's own interface"),
    require(
        Probe::Library("openssl"),
        ["libssl-dev", "openssl-devel"],
        "checksums while images are imported",
    ),
    require(Probe::Library("libzstd"), ["libzstd-dev", "libzstd-devel"], "compressed image layers"),
    require(Probe::Library("zlib"), ["zlib1g-dev", "zlib-devel"], "compressed image layers"),
    require(Probe::Program("skopeo"), ["skopeo", "skopeo"], "fetches OS images"),
    require(Probe::Program("ostree"), ["ostree", "ostree"], "looks at sysroots in tests"),
    require(Probe::Program("systemctl"), ["systemd", "systemd"], "the reference for unit enablement"),
    require(
        Probe::Program("dbus-daemon"),
        ["dbus-daemon", "dbus-daemon"],
        "a private bus for tests of services",
    ),
    require(
        Probe::Program("chattr"),
        ["e2fsprogs", "e2fsprogs"],
        "removes immutable deployments after tests",
    ),
    require(Probe::Program("mkfs.ext4"), ["e2fsprogs", "e2fsprogs"], "small file systems for tests"),
    require(Probe::Program("unshare"), ["util-linux", "util-linux"], "mounts that end with the test"),
    require(Probe::Program("strace"), ["strace", "strace"], "counts flushes in tests"),
    require(Probe::Program("etcd"), ["etcd-server", "etcd"], "keeps what an API server serves in tests"),
    require(Probe::Program("curl"), ["curl", "curl"], "asks whether that API server is ready"),
    require(Probe::Program("xz"), ["xz-utils", "xz"], "unpacks it"),
    require(Probe::Program("socat"), ["socat", "socat"], "ends TLS in front of it in tests"),
    require(Probe::Program("openssl"), ["openssl", "openssl"], "makes certificates for that"),
    require(Probe::Program("faketime"), ["faketime", "libfaketime"], "sets the clock in tests"),
];

/// What building a host that boots needs beside those; only `cargo xtask vm` asks for them.
const VM_REQUIREMENTS: &[Requirement] = &[
    require(
        Probe::Program("mmdebstrap"),
        ["mmdebstrap", "mmdebstrap"],
        "makes the trees of the virtual machines",
    ),
    require(Probe::Program("strip"), ["binutils", "binutils"], "leaves symbols out of virtual machines"),
    require(
        Probe::Program("setpriv"),
        ["util-linux", "util-linux"],
        "ends virtual machines with their tests",
    ),
];

const fn require(probe: Probe, [debian, fedora]: [&'static str; 2], purpose: &'static str) -> Requirement {
    Requirement { probe, debian, fedora, purpose }
}

/// Returns once everything in the table is installed; silent when it already is.
///
/// # Errors
/// Something is missing and may not, or cannot, be installed. The error then shows the commands
/// to run.
pub fn ensure_installed(consent: Consent) -> Result<()> {
    ensure_present(REQUIREMENTS, consent)
}

/// The same for what virtual machines need.
///
/// # Errors
/// As for [`ensure_installed`].
pub fn ensure_vm_installed(consent: Consent) -> Result<()> {
    ensure_present(VM_REQUIREMENTS, consent)
}

fn ensure_present(requirements: &'static [Requirement], consent: Consent) -> Result<()> {
    let missing = missing(requirements);
    if missing.is_empty() {
        return Ok(());
    }
    let Ok(family) = Family::load() else {
        bail!(
            "missing here:\n{}\nThis distribution's package names are not known; please install them.",
            described(&missing, Family::Debian)
        );
    };
    println!("Missing on this machine:\n{}", described(&missing, family));
    let mut packages: Vec<_> = missing.iter().map(|r| family.package(r)).collect();
    packages.dedup();
    let mut commands = family.installation(&packages);
    if !rustix::process::geteuid().is_root() {
        bail!("installing needs root; run:\n{}", listing(&commands, "sudo "));
    }
    consent.ensure(&listing(&commands, ""))?;
    commands.iter_mut().try_for_each(invocation::run)?;
    let left = self::missing(requirements);
    ensure!(left.is_empty(), "installed, and yet not found:\n{}", described(&left, family));
    Ok(())
}

fn missing(requirements: &'static [Requirement]) -> Vec<&'static Requirement> {
    requirements.iter().filter(|requirement| !is_present(requirement.probe)).collect()
}

fn is_present(probe: Probe) -> bool {
    match probe {
        Probe::Program(name) => program_exists(name),
        // Without pkg-config every library counts as missing: the build could not find it either.
        Probe::Library(name) => Command::new("pkg-config")
            .args(["--exists", name])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success()),
    }
}

fn program_exists(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps the administrator's programs out of other users' PATH.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder: std::path::PathBuf| Path::new(&folder).join(name).is_file())
}

fn described(requirements: &[&Requirement], family: Family) -> String {
    let lines = requirements
        .iter()
        .map(|requirement| format!("  {:<20} {}", family.package(requirement), requirement.purpose));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_told_from_what_is_not() {
        assert!(is_present(Probe::Program("sh")));
        assert!(!is_present(Probe::Program("no-such-program")));
        assert!(!is_present(Probe::Library("no-such-library")));
    }

    #[test]
    fn the_list_for_people_names_package_and_purpose() {
        let requirement = require(Probe::Program("sh"), ["dash", "bash"], "runs scripts");
        let lines = described(&[&requirement], Family::Fedora);
        assert_eq!(lines, "  bash                 runs scripts");
    }
}
