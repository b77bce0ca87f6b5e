//! Finds missing packages of the distribution and installs them after consent.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use crate::consent::InstallConsent;
use crate::invocation;
use crate::package;
use crate::packages::{PackageFamily, PackageRequirement, RequirementProbe, listing};

/// Requirements of the release build.
const BUILD_REQUIREMENTS: &[PackageRequirement] = &[
    require(
        RequirementProbe::Program("pkg-config"),
        ["pkg-config", "pkgconf-pkg-config"],
        "finds the libraries below",
    ),
    require(
        RequirementProbe::Library("ostree-1"),
        ["libostree-dev", "ostree-devel"],
        "deployments; linked by the worker",
    ),
    require(
        RequirementProbe::Library("gio-2.0"),
        ["libglib2.0-dev", "glib2-devel"],
        "libostree's own interface",
    ),
    require(
        RequirementProbe::Library("openssl"),
        ["libssl-dev", "openssl-devel"],
        "checksums while images are imported",
    ),
    require(
        RequirementProbe::Library("libzstd"),
        ["libzstd-dev", "libzstd-devel"],
        "compressed image layers",
    ),
    require(RequirementProbe::Library("zlib"), ["zlib1g-dev", "zlib-devel"], "compressed image layers"),
];

/// Further requirements of the tests.
const TEST_REQUIREMENTS: &[PackageRequirement] = &[
    require(RequirementProbe::Program("skopeo"), ["skopeo", "skopeo"], "fetches OS images"),
    require(
        RequirementProbe::Program("protoc"),
        ["protobuf-compiler", "protobuf-compiler"],
        "messages of the container runtime that tests run",
    ),
    require(RequirementProbe::Program("ostree"), ["ostree", "ostree"], "inspects sysroots in tests"),
    require(
        RequirementProbe::Program("systemctl"),
        ["systemd", "systemd"],
        "the reference for unit enablement",
    ),
    require(
        RequirementProbe::Program("dbus-daemon"),
        ["dbus-daemon", "dbus-daemon"],
        "a private bus for tests of services",
    ),
    require(
        RequirementProbe::Program("chattr"),
        ["e2fsprogs", "e2fsprogs"],
        "removes immutable deployments after tests",
    ),
    require(
        RequirementProbe::Program("mkfs.ext4"),
        ["e2fsprogs", "e2fsprogs"],
        "small file systems for tests",
    ),
    require(
        RequirementProbe::Program("unshare"),
        ["util-linux", "util-linux"],
        "mounts that end with the test",
    ),
    require(RequirementProbe::Program("strace"), ["strace", "strace"], "counts flushes in tests"),
    require(
        RequirementProbe::Program("etcd"),
        ["etcd-server", "etcd"],
        "stores the objects of the API server in tests",
    ),
    require(
        RequirementProbe::Program("ip"),
        ["iproute2", "iproute"],
        "sets up the network of simulated fleets in tests",
    ),
    require(RequirementProbe::Program("curl"), ["curl", "curl"], "waits for that API server in tests"),
    require(RequirementProbe::Program("xz"), ["xz-utils", "xz"], "unpacks that API server"),
    require(RequirementProbe::Program("openssl"), ["openssl", "openssl"], "creates certificates in tests"),
    require(RequirementProbe::Program("gpg"), ["gpg", "gnupg2"], "signs images in tests"),
    require(RequirementProbe::Program("gpg-agent"), ["gpg-agent", "gnupg2"], "has the keys that sign images"),
    require(RequirementProbe::Program("gpgconf"), ["gpgconf", "gnupg2"], "ends that agent"),
    require(RequirementProbe::Program("faketime"), ["faketime", "libfaketime"], "sets the clock in tests"),
    require(
        RequirementProbe::Program("promtool"),
        ["prometheus", "golang-github-prometheus"],
        "checks metrics and alert rules in tests",
    ),
    require(RequirementProbe::Program("shellcheck"), ["shellcheck", "ShellCheck"], "reads scripts in tests"),
];

/// Further requirements of virtual machines, checked by the commands that build them.
const VM_REQUIREMENTS: &[PackageRequirement] = &[
    require(
        RequirementProbe::Program("mmdebstrap"),
        ["mmdebstrap", "mmdebstrap"],
        "creates the root file systems of virtual machines",
    ),
    require(
        RequirementProbe::Program("buildah"),
        ["buildah", "buildah"],
        "builds images of the Containerfiles",
    ),
    require(
        RequirementProbe::Program("strip"),
        ["binutils", "binutils"],
        "strips executables for virtual machines",
    ),
    require(
        RequirementProbe::Program("setpriv"),
        ["util-linux", "util-linux"],
        "terminates virtual machines together with their test",
    ),
];

/// Further requirements of packages, checked by the commands that build them.
const PACKAGING_REQUIREMENTS: &[PackageRequirement] = &[
    require(
        RequirementProbe::Program("dpkg-shlibdeps"),
        ["dpkg-dev", "dpkg-dev"],
        "finds packages of libraries",
    ),
    require(RequirementProbe::Program("rpmbuild"), ["rpm", "rpm-build"], "builds packages for Fedora"),
    require(RequirementProbe::Program("lintian"), ["lintian", "lintian"], "reads packages for Debian"),
    require(
        RequirementProbe::Program("mksquashfs"),
        ["squashfs-tools", "squashfs-tools"],
        "makes images of system extensions",
    ),
    require(RequirementProbe::Program("rpmlint"), ["rpmlint", "rpmlint"], "reads packages for Fedora"),
    require(
        RequirementProbe::Program("shellcheck"),
        ["shellcheck", "ShellCheck"],
        "reads scripts of packages",
    ),
    require(
        RequirementProbe::File(package::SELINUX_MAKEFILE),
        ["selinux-policy-dev", "selinux-policy-devel"],
        "compiles the SELinux module",
    ),
];

const fn require(
    probe: RequirementProbe,
    [debian, fedora]: [&'static str; 2],
    purpose: &'static str,
) -> PackageRequirement {
    PackageRequirement { probe, debian, fedora, purpose }
}

/// Install the missing packages that building and testing need; print nothing if none is missing.
///
/// # Errors
/// A package is missing and may not, or cannot, be installed. The error then lists the commands to run.
pub fn ensure_installed(consent: InstallConsent) -> Result<()> {
    ensure_present(&[BUILD_REQUIREMENTS, TEST_REQUIREMENTS], consent)
}

/// Install the missing packages that the release build needs.
///
/// # Errors
/// As for [`ensure_installed`].
pub fn ensure_build_installed(consent: InstallConsent) -> Result<()> {
    ensure_present(&[BUILD_REQUIREMENTS], consent)
}

/// Install the missing packages that virtual machines need.
///
/// # Errors
/// As for [`ensure_installed`].
pub fn ensure_vm_installed(consent: InstallConsent) -> Result<()> {
    ensure_present(&[VM_REQUIREMENTS], consent)
}

/// Install the missing packages that packaging needs.
///
/// # Errors
/// As for [`ensure_installed`].
pub fn ensure_packaging_installed(consent: InstallConsent) -> Result<()> {
    ensure_present(&[PACKAGING_REQUIREMENTS], consent)
}

fn ensure_present(requirements: &[&'static [PackageRequirement]], consent: InstallConsent) -> Result<()> {
    let missing = missing(requirements);
    if missing.is_empty() {
        return Ok(());
    }
    let Ok(family) = PackageFamily::load() else {
        bail!(
            "missing on this machine:\n{}\nThe package names of this distribution are not known: install the equivalents.",
            described(&missing, PackageFamily::Debian)
        );
    };
    println!("Missing on this machine:\n{}", described(&missing, family));
    let mut packages: Vec<_> = missing.iter().map(|r| family.package(r)).collect();
    packages.dedup();
    let mut commands = family.installation(&packages);
    if !rustix::process::geteuid().is_root() {
        bail!("the installation needs root; run:\n{}", listing(&commands, "sudo "));
    }
    consent.ensure(&listing(&commands, ""))?;
    commands.iter_mut().try_for_each(invocation::run)?;
    let left = self::missing(requirements);
    ensure!(left.is_empty(), "still missing after the installation:\n{}", described(&left, family));
    Ok(())
}

fn missing(requirements: &[&'static [PackageRequirement]]) -> Vec<&'static PackageRequirement> {
    requirements.iter().copied().flatten().filter(|requirement| !is_present(requirement.probe)).collect()
}

fn is_present(probe: RequirementProbe) -> bool {
    match probe {
        RequirementProbe::Program(name) => program(name).is_some(),
        RequirementProbe::File(path) => Path::new(path).is_file(),
        // Without pkg-config every library counts as missing: the build scripts would not find it either.
        RequirementProbe::Library(name) => Command::new("pkg-config")
            .args(["--exists", name])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success()),
    }
}

/// Find a program by its name.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian has no sbin directory in the PATH of ordinary users.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn described(requirements: &[&PackageRequirement], family: PackageFamily) -> String {
    let lines = requirements
        .iter()
        .map(|requirement| format!("  {:<20} {}", family.package(requirement), requirement.purpose));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_and_missing_requirements_are_distinguished() {
        assert!(is_present(RequirementProbe::Program("sh")));
        assert!(!is_present(RequirementProbe::Program("no-such-program")));
        assert!(!is_present(RequirementProbe::File("/no/such/file")));
        assert!(!is_present(RequirementProbe::Library("no-such-library")));
    }

    #[test]
    fn description_has_package_and_purpose() {
        let requirement = require(RequirementProbe::Program("sh"), ["dash", "bash"], "runs scripts");
        let lines = described(&[&requirement], PackageFamily::Fedora);
        assert_eq!(lines, "  bash                 runs scripts");
    }
}
