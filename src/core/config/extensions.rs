//! Extensions of the operating system: named sets of packages (the reference's table).

/// Each extension and the packages that it stands for.
const EXTENSIONS: [(&str, &[&str]); 7] = [
    ("ipsec", &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"]),
    ("kerberos", &["krb5-workstation", "libkadm5"]),
    ("kernel-devel", &["kernel-devel", "kernel-headers"]),
    ("sandboxed-containers", &["kata-containers"]),
    ("sysstat", &["sysstat"]),
    ("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    ("usbguard", &["usbguard"]),
];

/// The packages of an extension; `None` where nobody knows it.
#[must_use]
pub fn packages(extension: &str) -> Option<&'static [&'static str]> {
    let found = EXTENSIONS.iter().find(|(name, _)| *name == extension);
    found.map(|(_, packages)| *packages)
}

/// Whether an extension has this package.
#[must_use]
pub fn is_extension_package(package: &str) -> bool {
    EXTENSIONS.iter().any(|(_, packages)| packages.contains(&package))
}

/// The known names, for messages.
#[must_use]
pub fn accepted() -> String {
    EXTENSIONS.map(|(name, _)| name).join(", ")
}

/// Packages to add and to remove, each sorted: what the extensions need and is not requested yet,
/// and what is requested for an extension that is no longer listed. Packages that belong to no
/// extension stay.
#[must_use]
pub fn package_changes(extensions: &[String], requested: &[&str]) -> (Vec<&'static str>, Vec<&'static str>) {
    let sorted = |mut packages: Vec<&'static str>| {
        packages.sort_unstable();
        packages.dedup();
        packages
    };
    let required: Vec<&str> =
        extensions.iter().filter_map(|name| packages(name)).flatten().copied().collect();
    let known = EXTENSIONS.iter().flat_map(|(_, packages)| packages.iter().copied());
    let install = required.iter().copied().filter(|package| !requested.contains(package)).collect();
    let uninstall =
        known.filter(|package| requested.contains(package) && !required.contains(package)).collect();
    (sorted(install), sorted(uninstall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_follow_the_listed_extensions() {
        type Row = (
            &'static [&'static str],
            &'static [&'static str],
            &'static [&'static str],
            &'static [&'static str],
        );
        let rows: [Row; 7] = [
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
        ];
        for (extensions, requested, install, uninstall) in rows {
            let extensions: Vec<String> = extensions.iter().map(ToString::to_string).collect();
            assert_eq!(package_changes(&extensions, requested), (install.to_vec(), uninstall.to_vec()));
        }
    }
}
