//! Extensions of the operating system: named sets of packages, from MCD's table.

/// Each extension and its packages.
const EXTENSIONS: [(&str, &[&str]); 8] = [
    ("ipsec", &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"]),
    ("kerberos", &["krb5-workstation", "libkadm5"]),
    ("kernel-devel", &["kernel-devel", "kernel-headers"]),
    ("sandboxed-containers", &["kata-containers"]),
    ("sysstat", &["sysstat"]),
    ("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    ("usbguard", &["usbguard"]),
    // Of OpenShift 4.14 to 4.21.
    ("wasm", &["crun-wasm"]),
];

/// Packages that extensions have in newer releases only: an extension without them is complete on a host of an older one (MCD's
/// `LegacyExtensionPackages`).
const ADDED_LATER: [&str; 1] = ["openvswitch3.5-ipsec"];

/// The packages of an extension; `None` for an unknown name.
#[must_use]
pub fn packages(extension: &str) -> Option<&'static [&'static str]> {
    let found = EXTENSIONS.iter().find(|(name, _)| *name == extension);
    found.map(|(_, packages)| *packages)
}

/// True if any extension has this package.
#[must_use]
pub fn is_extension_package(package: &str) -> bool {
    EXTENSIONS.iter().any(|(_, packages)| packages.contains(&package))
}

/// True if extensions of older releases lack the package.
#[must_use]
pub fn is_added_later(package: &str) -> bool {
    ADDED_LATER.contains(&package)
}

/// The names of all extensions, comma-separated, for messages.
#[must_use]
pub fn accepted() -> String {
    EXTENSIONS.map(|(name, _)| name).join(", ")
}

/// Compute the packages to install and to uninstall, each sorted: packages of listed `extensions` that are
/// not `requested` yet, and requested packages of extensions that are no longer listed. Requested packages of
/// no extension stay. Packages that an extension has in newer releases only come with another image: `keeps_image` is true
/// for a change without one.
#[must_use]
pub fn package_changes(
    extensions: &[String],
    requested: &[&str],
    keeps_image: bool,
) -> (Vec<&'static str>, Vec<&'static str>) {
    let sorted = |mut packages: Vec<&'static str>| {
        packages.sort_unstable();
        packages.dedup();
        packages
    };
    let required: Vec<&str> =
        extensions.iter().filter_map(|name| packages(name)).flatten().copied().collect();
    let known = EXTENSIONS.iter().flat_map(|(_, packages)| packages.iter().copied());
    let is_complete = |packages: &[&str]| {
        keeps_image && packages.iter().all(|package| is_added_later(package) || requested.contains(package))
    };
    let incomplete =
        extensions.iter().filter_map(|name| packages(name)).filter(|packages| !is_complete(packages));
    let install = incomplete.flatten().copied().filter(|package| !requested.contains(package)).collect();
    let uninstall =
        known.filter(|package| requested.contains(package) && !required.contains(package)).collect();
    (sorted(install), sorted(uninstall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_changes_follow_the_listed_extensions() {
        type Row = (
            &'static [&'static str],
            &'static [&'static str],
            &'static [&'static str],
            &'static [&'static str],
        );
        let rows: [Row; 8] = [
            (&[], &[], &[], &[]),
            (&["sysstat"], &[], &["sysstat"], &[]),
            (&["sysstat"], &["sysstat"], &[], &[]),
            (&[], &["sysstat"], &[], &["sysstat"]),
            (
                &["sysstat"],
                &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec", "sysstat"],
                &[],
                &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"],
            ),
            (
                &["two-node-ha", "usbguard"],
                &["pacemaker", "sysstat"],
                &["fence-agents-all", "pcs", "usbguard"],
                &["sysstat"],
            ),
            (&[], &["vim"], &[], &[]),
            (&["wasm"], &["vim"], &["crun-wasm"], &[]),
        ];
        for (extensions, requested, install, uninstall) in rows {
            let extensions: Vec<String> = extensions.iter().map(ToString::to_string).collect();
            for keeps_image in [true, false] {
                let changes = package_changes(&extensions, requested, keeps_image);
                assert_eq!(changes, (install.to_vec(), uninstall.to_vec()));
            }
        }
    }

    #[test]
    fn package_of_newer_releases_comes_with_another_image() {
        let (extensions, older) = (["ipsec".to_owned()], ["NetworkManager-libreswan", "libreswan"]);
        let install =
            |requested: &[&str], keeps_image| package_changes(&extensions, requested, keeps_image).0;
        assert_eq!(install(&older, true), [""; 0]);
        assert_eq!(install(&older, false), ["openvswitch3.5-ipsec"]);
        assert_eq!(install(&older[..1], true), ["libreswan", "openvswitch3.5-ipsec"]);
    }
}
