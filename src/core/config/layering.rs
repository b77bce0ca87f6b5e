//! What packages a deployment has beside those of its image, or in their place; and what has to change for another
//! kernel or other extensions.

use serde::{Deserialize, Serialize};

use super::extensions;
use super::host_config::{KernelType, OsSpec};

/// The packages of a kernel in the image that another kernel takes the place of (the reference's list).
const KERNEL: [&str; 5] =
    ["kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"];
const REALTIME: [&str; 3] = ["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"];
const PAGES_64K: [&str; 4] =
    ["kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"];
/// How the names of kernels' packages begin that are installed in place of the image's own.
const OTHER_KERNELS: [&str; 2] = ["kernel-rt-", "kernel-64k-"];

/// What a deployment's origin says of packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageLayering {
    /// Packages that were asked for.
    pub requested: Vec<String>,
    /// Packages of the image that were removed.
    pub removed: Vec<String>,
}

impl PackageLayering {
    /// How many of the packages are neither of an extension nor of a kernel that the cluster supports: somebody else's.
    #[must_use]
    pub fn unsupported(&self) -> usize {
        let is_others_kernel = |package: &str| OTHER_KERNELS.iter().any(|kernel| package.starts_with(kernel));
        let requested = self.requested.iter();
        let requested = requested
            .filter(|package| !extensions::is_extension_package(package) && !is_others_kernel(package));
        let removed = self.removed.iter().filter(|package| !KERNEL.contains(&package.as_str()));
        requested.count() + removed.count()
    }

    /// Whether it is the image's packages alone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requested.is_empty() && self.removed.is_empty()
    }
}

/// What is to be done about packages. Each list is sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayeringChange {
    /// Packages to install.
    pub install: Vec<String>,
    /// Packages that were asked for, and are not any more.
    pub uninstall: Vec<String>,
    /// Packages of the image to remove.
    pub remove: Vec<String>,
    /// Packages of the image that come back.
    pub reset: Vec<String>,
}

impl LayeringChange {
    /// What makes a deployment have what `desired` says of kernel and extensions. Packages that belong to neither stay.
    #[must_use]
    pub fn between(current: &PackageLayering, desired: &OsSpec) -> Self {
        let requested: Vec<&str> = current.requested.iter().map(String::as_str).collect();
        let (of_extensions, not_any_more) = extensions::package_changes(&desired.extensions, &requested);
        let of_kernel: &[&str] = match desired.kernel_type {
            KernelType::Default => &[],
            KernelType::Realtime => &REALTIME,
            KernelType::Pages64k => &PAGES_64K,
        };
        let replaced: &[&str] = if of_kernel.is_empty() { &[] } else { &KERNEL };
        let has = |list: &[String], name: &str| list.iter().any(|item| item == name);
        let missing = of_kernel.iter().copied().filter(|name| !has(&current.requested, name));
        let other_kernel = requested.iter().copied().filter(|name| {
            OTHER_KERNELS.iter().any(|prefix| name.starts_with(prefix)) && !of_kernel.contains(name)
        });
        let back = KERNEL.into_iter().filter(|name| has(&current.removed, name) && !replaced.contains(name));
        let gone = replaced.iter().copied().filter(|name| !has(&current.removed, name));
        Self {
            install: sorted(of_extensions.into_iter().chain(missing)),
            uninstall: sorted(not_any_more.into_iter().chain(other_kernel)),
            remove: sorted(gone),
            reset: sorted(back),
        }
    }

    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { install, uninstall, remove, reset } = self;
        [install, uninstall, remove, reset].iter().all(|list| list.is_empty())
    }

    /// What of it a deployment does not have, one phrase each; nothing where it is done.
    #[must_use]
    pub fn missing_in(&self, made: &PackageLayering) -> Vec<String> {
        let checks = [
            (&self.install, &made.requested, true, "is not installed"),
            (&self.uninstall, &made.requested, false, "is still installed"),
            (&self.remove, &made.removed, true, "of the image is still there"),
            (&self.reset, &made.removed, false, "of the image is still removed"),
        ];
        let missing = checks.into_iter().flat_map(|(wanted, list, is_in, what)| {
            let unlike = wanted.iter().filter(move |name| list.contains(name) != is_in);
            unlike.map(move |name| format!("{name} {what}"))
        });
        missing.collect()
    }
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn layering(requested: &[&str], removed: &[&str]) -> PackageLayering {
        PackageLayering { requested: list(requested), removed: list(removed) }
    }

    fn change(current: &PackageLayering, kernel_type: KernelType, extensions: &[&str]) -> LayeringChange {
        let desired = OsSpec { kernel_type, extensions: list(extensions), ..OsSpec::default() };
        LayeringChange::between(current, &desired)
    }

    #[test]
    fn packages_of_nobody_that_the_cluster_knows_are_counted() {
        let layering = |requested: &[&str], removed: &[&str]| PackageLayering {
            requested: requested.iter().map(|name| (*name).to_owned()).collect(),
            removed: removed.iter().map(|name| (*name).to_owned()).collect(),
        };
        for (layering, expected) in [
            (layering(&[], &[]), 0),
            (layering(&["usbguard", "kernel-rt-core"], &["kernel-core"]), 0),
            (layering(&["usbguard", "htop"], &["kernel", "vim-minimal"]), 2),
        ] {
            assert_eq!(layering.unsupported(), expected, "{layering:?}");
        }
    }

    #[test]
    fn kernels_and_extensions_change_together() {
        let plain = PackageLayering::default();
        let swapped = change(&plain, KernelType::Realtime, &["usbguard"]);
        assert_eq!(swapped.install, [&list(&REALTIME)[..], &list(&["usbguard"])].concat());
        assert_eq!((swapped.remove.clone(), swapped.reset.clone()), (list(&KERNEL), list(&[])));
        let realtime =
            PackageLayering { requested: swapped.install.clone(), removed: swapped.remove.clone() };
        assert_eq!(swapped.missing_in(&realtime), list(&[]));
        assert_eq!(swapped.missing_in(&plain).len(), REALTIME.len() + 1 + KERNEL.len());
        assert!(change(&realtime, KernelType::Realtime, &["usbguard"]).is_empty(), "nothing changes");
        let back = change(&realtime, KernelType::Default, &[]);
        assert_eq!(back.uninstall, swapped.install);
        assert_eq!((back.reset, back.install, back.remove), (list(&KERNEL), list(&[]), list(&[])));
        let other = change(&realtime, KernelType::Pages64k, &["usbguard"]);
        assert_eq!((other.install, other.uninstall), (list(&PAGES_64K), list(&REALTIME)));
        assert_eq!((other.remove, other.reset), (list(&[]), list(&[])), "the image's own is gone already");
    }

    #[test]
    fn packages_of_others_stay() {
        let current = layering(&["vim", "kernel-devel"], &["firefox"]);
        assert!(
            change(&current, KernelType::Default, &["kernel-devel"]).install == list(&["kernel-headers"])
        );
        let change = change(&current, KernelType::Default, &[]);
        assert_eq!(
            (change.uninstall, change.reset, change.install),
            (list(&["kernel-devel"]), list(&[]), list(&[]))
        );
    }

    #[test]
    fn half_a_swap_is_completed() {
        let half = layering(&[], &["kernel", "kernel-core"]);
        let change = change(&half, KernelType::Realtime, &[]);
        assert_eq!(change.remove, list(&["kernel-modules", "kernel-modules-core", "kernel-modules-extra"]));
        let none = LayeringChange::between(&half, &OsSpec::default());
        assert_eq!((none.reset, none.uninstall), (list(&["kernel", "kernel-core"]), list(&[])));
    }
}
