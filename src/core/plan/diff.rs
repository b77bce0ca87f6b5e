//! Differences between two configurations: files, units, SSH keys, kernel arguments, OS image, by property.

use std::collections::BTreeMap;

use crate::core::config::host_config::{FileSpec, HostConfig, UnitSpec};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::ChangeKind;

/// Changed file, directory, link or unit, with its differing properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedItem {
    /// Kind of change: added, modified or removed.
    pub change: ChangeKind,
    /// Differing properties, in words.
    pub reasons: Vec<String>,
    /// Position in the list of the desired config, or of the current config for a removed item.
    pub listed: usize,
}

/// All differences between two configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigDiff {
    pub files: BTreeMap<ManagedPath, ChangedItem>,
    pub directories: BTreeMap<ManagedPath, ChangedItem>,
    pub links: BTreeMap<ManagedPath, ChangedItem>,
    pub units: BTreeMap<String, ChangedItem>,
    /// True if authorized SSH keys differ.
    pub ssh_keys: bool,
    /// True if the password hash differs.
    pub password: bool,
    pub os_image: bool,
    /// True if kernel arguments differ, in content or order.
    pub kernel_arguments: bool,
    /// True if the kernel type (`default`, `realtime`) differs.
    pub kernel_type: bool,
    /// True if extensions differ, in content or order.
    pub extensions: bool,
    pub fips: bool,
}

impl ConfigDiff {
    /// Compare two configurations. File contents are compared decoded, so a new encoding of equal bytes is no
    /// difference.
    #[must_use]
    pub fn between(current: &HostConfig, desired: &HostConfig) -> Self {
        Self {
            files: items(&current.files, &desired.files, |file| file.index, file_reasons),
            directories: items(
                &current.directories,
                &desired.directories,
                |directory| directory.index,
                |a, b| reasons(&[("mode", a.mode != b.mode), ("owner", a.owner != b.owner)]),
            ),
            links: items(
                &current.links,
                &desired.links,
                |link| link.index,
                |a, b| {
                    reasons(&[
                        ("target", a.target != b.target || a.hard != b.hard),
                        ("owner", a.owner != b.owner),
                    ])
                },
            ),
            units: items(&current.units, &desired.units, |unit| unit.index, unit_reasons),
            ssh_keys: current.passwd.keys().ne(desired.passwd.keys()),
            password: current.passwd.password_hash() != desired.passwd.password_hash(),
            os_image: current.os.image != desired.os.image,
            kernel_arguments: current.os.kernel_arguments != desired.os.kernel_arguments,
            kernel_type: current.os.kernel_type != desired.os.kernel_type,
            extensions: current.os.extensions != desired.os.extensions,
            fips: current.os.fips != desired.os.fips,
        }
    }

    /// Count what differs in one line, such as `2 files, 1 unit, kernel arguments`; `None` if nothing does.
    #[must_use]
    pub fn counted(&self) -> Option<String> {
        let numbers = [
            (self.directories.len(), "directory", "directories"),
            (self.files.len(), "file", "files"),
            (self.links.len(), "link", "links"),
            (self.units.len(), "unit", "units"),
        ];
        let numbers = numbers.iter().filter(|(number, ..)| *number > 0);
        let numbers =
            numbers.map(|(number, one, many)| format!("{number} {}", if *number == 1 { one } else { many }));
        let others = [
            (self.os_image, "OS image"),
            (self.kernel_arguments, "kernel arguments"),
            (self.kernel_type, "kernel type"),
            (self.extensions, "extensions"),
            (self.fips, "FIPS mode"),
            (self.ssh_keys, "SSH keys"),
            (self.password, "password hash"),
        ];
        let others = others.iter().filter(|(differs, _)| *differs).map(|(_, what)| (*what).to_owned());
        let parts: Vec<String> = numbers.chain(others).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn items<K: Ord + Clone, T>(
    current: &BTreeMap<K, T>,
    desired: &BTreeMap<K, T>,
    index: impl Fn(&T) -> usize,
    reasons: impl Fn(&T, &T) -> Vec<String>,
) -> BTreeMap<K, ChangedItem> {
    let mut changed = BTreeMap::new();
    for (key, item) in desired {
        let (change, reasons) = match current.get(key) {
            None => (ChangeKind::Add, vec!["new in the config".to_owned()]),
            Some(before) => match reasons(before, item) {
                none if none.is_empty() => continue,
                reasons => (ChangeKind::Modify, reasons),
            },
        };
        changed.insert(key.clone(), ChangedItem { change, reasons, listed: index(item) });
    }
    let gone = current.iter().filter(|(key, _)| !desired.contains_key(*key));
    changed.extend(gone.map(|(key, item)| {
        let reasons = vec!["no longer in the config".to_owned()];
        (key.clone(), ChangedItem { change: ChangeKind::Remove, reasons, listed: index(item) })
    }));
    changed
}

fn reasons(found: &[(&str, bool)]) -> Vec<String> {
    let differing = found.iter().filter(|(_, differs)| *differs);
    differing.map(|(what, _)| format!("{what} differs")).collect()
}

fn file_reasons(a: &FileSpec, b: &FileSpec) -> Vec<String> {
    let extends = |file: &FileSpec| !file.has_contents && !file.append.is_empty();
    let owner = |file: &FileSpec| (file.owner.clone(), file.inherited.user, file.inherited.group);
    reasons(&[
        ("content", a.contents != b.contents || extends(a) != extends(b)),
        ("appended content", a.append != b.append),
        ("mode", (a.mode, a.inherited.mode) != (b.mode, b.inherited.mode)),
        ("owner", owner(a) != owner(b)),
    ])
}

fn unit_reasons(a: &UnitSpec, b: &UnitSpec) -> Vec<String> {
    let mut found = reasons(&[
        ("content", a.contents != b.contents),
        ("enablement", a.enabled != b.enabled),
        ("mask", a.mask != b.mask),
    ]);
    let mut names: Vec<&String> = a.drop_ins.keys().chain(b.drop_ins.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        match (a.drop_ins.get(name), b.drop_ins.get(name)) {
            (None, Some(_)) => found.push(format!("drop-in {name} is new")),
            (Some(_), None) => found.push(format!("drop-in {name} is gone")),
            (before, after) if before != after => found.push(format!("drop-in {name} differs")),
            _ => {}
        }
    }
    found
}
