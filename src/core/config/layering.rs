//! Package layering of a deployment: packages added to those of the image or removed from it, and the change
//! needed for another kernel or other extensions.

use serde::{Deserialize, Serialize};

use super::extensions;
use super::host_config::{KernelType, OsSpec};

/// The packages of the image's kernel that another kernel replaces (MCD's list).
const KERNEL: [&str; 5] =
    ["kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"];
const REALTIME: [&str; 3] = ["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"];
const PAGES_64K: [&str; 4] =
    ["kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"];
const REALTIME_PREFIX: &str = "kernel-rt-";
const PAGES_64K_PREFIX: &str = "kernel-64k-";
/// Prefixes of the packages of the realtime and the 64k-pages kernel.
const OTHER_KERNELS: [&str; 2] = [REALTIME_PREFIX, PAGES_64K_PREFIX];

/// The packages in a deployment's origin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageLayering {
    /// Packages that were requested in addition to the image.
    pub requested: Vec<String>,
    /// Packages of the image that were removed ("overrides").
    pub removed: Vec<String>,
}

impl PackageLayering {
    /// Count the packages that belong neither to an extension nor to a supported kernel: layered by an
    /// administrator.
    #[must_use]
    pub fn unsupported(&self) -> usize {
        let is_others_kernel = |package: &str| OTHER_KERNELS.iter().any(|kernel| package.starts_with(kernel));
        let requested = self.requested.iter();
        let requested = requested
            .filter(|package| !extensions::is_extension_package(package) && !is_others_kernel(package));
        let removed = self.removed.iter().filter(|package| !KERNEL.contains(&package.as_str()));
        requested.count() + removed.count()
    }

    /// True if the deployment has exactly the image's packages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requested.is_empty() && self.removed.is_empty()
    }
}

/// The change of packages that rpm-ostree is asked for. Each list is sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayeringChange {
    pub install: Vec<String>,
    /// Requested packages that are no longer needed.
    pub uninstall: Vec<String>,
    /// Packages of the image to remove.
    pub remove: Vec<String>,
    /// Removed packages of the image to restore.
    pub reset: Vec<String>,
}

impl LayeringChange {
    /// Compute the change from `current` to the kernel and extensions of `desired`, with the same image or with another. Other
    /// layered packages stay.
    #[must_use]
    pub fn between(current: &PackageLayering, desired: &OsSpec, keeps_image: bool) -> Self {
        let requested: Vec<&str> = current.requested.iter().map(String::as_str).collect();
        let (of_extensions, not_any_more) =
            extensions::package_changes(&desired.extensions, &requested, keeps_image);
        let (of_kernel, own): (&[&str], _) = match desired.kernel_type {
            KernelType::Default => (&[], None),
            KernelType::Realtime => (&REALTIME, Some(REALTIME_PREFIX)),
            KernelType::Pages64k => (&PAGES_64K, Some(PAGES_64K_PREFIX)),
        };
        let replaced: &[&str] = if of_kernel.is_empty() { &[] } else { &KERNEL };
        let has = |list: &[String], name: &str| list.iter().any(|item| item == name);
        let missing = of_kernel.iter().copied().filter(|name| !has(&current.requested, name));
        // Further packages of the same kernel stay, such as `kernel-rt-kvm`, which older releases of MCD requested.
        let others = OTHER_KERNELS.into_iter().filter(|prefix| own != Some(*prefix));
        let other_kernel =
            others.flat_map(|prefix| requested.iter().copied().filter(move |name| name.starts_with(prefix)));
        let back = KERNEL.into_iter().filter(|name| has(&current.removed, name) && !replaced.contains(name));
        let gone = replaced.iter().copied().filter(|name| !has(&current.removed, name));
        Self {
            install: sorted(of_extensions.into_iter().chain(missing)),
            uninstall: sorted(not_any_more.into_iter().chain(other_kernel)),
            remove: sorted(gone),
            reset: sorted(back),
        }
    }

    /// Leave out packages that extensions have in newer releases only, where `is_offered` says that there is none to install.
    pub fn leave_out_of_newer_releases(&mut self, is_offered: impl Fn(&str) -> bool) {
        self.install.retain(|package| !extensions::is_added_later(package) || is_offered(package));
    }

    /// True if no package changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { install, uninstall, remove, reset } = self;
        [install, uninstall, remove, reset].iter().all(|list| list.is_empty())
    }

    /// Compare this change with the layering of the deployment that was `made`, and describe each package
    /// that differs; empty if the change is complete.
    #[must_use]
    pub fn missing_in(&self, made: &PackageLayering) -> Vec<String> {
        let checks = [
            (&self.install, &made.requested, true, "is not installed"),
            (&self.uninstall, &made.requested, false, "is still installed"),
            (&self.remove, &made.removed, true, "of the image is still installed"),
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
        LayeringChange::between(current, &desired, true)
    }

    #[test]
    fn packages_of_no_extension_or_kernel_are_counted_as_unsupported() {
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
    fn kernel_and_extensions_change_together() {
        let plain = PackageLayering::default();
        let swapped = change(&plain, KernelType::Realtime, &["usbguard"]);
        assert_eq!(swapped.install, [&list(&REALTIME)[..], &list(&["usbguard"])].concat());
        assert_eq!((swapped.remove.clone(), swapped.reset.clone()), (list(&KERNEL), list(&[])));
        let realtime =
            PackageLayering { requested: swapped.install.clone(), removed: swapped.remove.clone() };
        assert_eq!(swapped.missing_in(&realtime), list(&[]));
        assert_eq!(swapped.missing_in(&plain).len(), REALTIME.len() + 1 + KERNEL.len());
        assert!(change(&realtime, KernelType::Realtime, &["usbguard"]).is_empty(), "nothing changes");
        let mut with_another = realtime.clone();
        with_another.requested.push("kernel-rt-kvm".to_owned());
        assert!(change(&with_another, KernelType::Realtime, &["usbguard"]).is_empty());
        assert!(
            change(&with_another, KernelType::Default, &[]).uninstall.contains(&"kernel-rt-kvm".to_owned())
        );
        let back = change(&realtime, KernelType::Default, &[]);
        assert_eq!(back.uninstall, swapped.install);
        assert_eq!((back.reset, back.install, back.remove), (list(&KERNEL), list(&[]), list(&[])));
        let other = change(&realtime, KernelType::Pages64k, &["usbguard"]);
        assert_eq!((other.install, other.uninstall), (list(&PAGES_64K), list(&REALTIME)));
        assert_eq!(
            (other.remove, other.reset),
            (list(&[]), list(&[])),
            "the image's kernel is removed already"
        );
    }

    #[test]
    fn packages_layered_by_an_administrator_stay() {
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
    fn partial_kernel_replacement_is_completed() {
        let half = layering(&[], &["kernel", "kernel-core"]);
        let change = change(&half, KernelType::Realtime, &[]);
        assert_eq!(change.remove, list(&["kernel-modules", "kernel-modules-core", "kernel-modules-extra"]));
        let none = LayeringChange::between(&half, &OsSpec::default(), true);
        assert_eq!((none.reset, none.uninstall), (list(&["kernel", "kernel-core"]), list(&[])));
    }
}
