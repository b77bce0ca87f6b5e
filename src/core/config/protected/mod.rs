//! Protected parts of a host: entries of a config that no host takes, in either profile. They cannot be
//! written, belong to accounts and identity of the host, or would take the agent away.

mod drop_ins;
mod own_files;
mod paths;
mod units;

pub use units::{AGENT_UNITS, is_agent_unit, is_protected as is_protected_unit};

use super::host_config::HostConfig;
use crate::core::enablement::UnitName;
use crate::core::values::kernel_arguments::{KernelArgument, KernelArguments};
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::Refusal;

/// Entry of a config that no host takes, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedEntry {
    pub item: ConfigItem,
    pub refusal: Refusal,
}

/// Place of an entry in the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigItem {
    /// File, directory or link at this path.
    Storage(ManagedPath),
    /// Contents, mask and enablement of a unit.
    Unit(String),
    /// Drop-in of a unit, by the names of both.
    DropIn(String, String),
}

/// Kind of a storage entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StorageKind<'a> {
    /// File with its contents, appended ones included.
    File(&'a [u8]),
    Directory,
    Link,
}

/// Find all entries of `config` that no host takes.
#[must_use]
pub fn entries(config: &HostConfig) -> Vec<ProtectedEntry> {
    let mut found = Vec::new();
    for (path, file) in &config.files {
        found.extend(storage_entry(path, StorageKind::File(&file.with_appended()), "files", file.index));
    }
    for (path, directory) in &config.directories {
        found.extend(storage_entry(path, StorageKind::Directory, "directories", directory.index));
    }
    for (path, link) in &config.links {
        found.extend(storage_entry(path, StorageKind::Link, "links", link.index));
    }
    found.extend(own_files::invalid(config));
    found.extend(units::entries(config));
    found
}

fn storage_entry(
    path: &ManagedPath,
    kind: StorageKind<'_>,
    list: &str,
    index: usize,
) -> Option<ProtectedEntry> {
    let reason = paths::refusal(path, kind)?;
    let refusal = Refusal::new(format!("spec.config.storage.{list}[{index}].path"), reason);
    Some(ProtectedEntry { item: ConfigItem::Storage(path.clone()), refusal })
}

/// Remove all entries from `config` that no host takes, and name them in [`HostConfig::left_out`]: for a
/// config that was applied already, by Ignition or an earlier version.
pub fn leave_out(config: &mut HostConfig) {
    for ProtectedEntry { item, refusal } in entries(config) {
        match item {
            ConfigItem::Storage(path) => {
                config.files.remove(&path);
                config.directories.remove(&path);
                config.links.remove(&path);
            }
            ConfigItem::Unit(name) => {
                if let Some(unit) = config.units.get_mut(&name) {
                    (unit.contents, unit.mask, unit.enabled) = (None, None, None);
                }
            }
            ConfigItem::DropIn(name, drop_in) => {
                if let Some(unit) = config.units.get_mut(&name) {
                    unit.drop_ins.remove(&drop_in);
                }
            }
        }
        config.left_out.push(refusal.to_string());
    }
    config.units.retain(|name, unit| {
        let is_empty = unit.contents.is_none() && unit.mask.is_none() && unit.enabled.is_none();
        !(is_empty && unit.drop_ins.is_empty() && units::is_protected(name))
    });
}

/// Refuse kernel arguments that mask a unit of the agent.
pub fn refuse_kernel_arguments(entries: &[String], refused: &mut Vec<Refusal>) {
    for (index, entry) in entries.iter().enumerate() {
        let arguments = KernelArguments::parse(entry);
        for unit in arguments.iter().filter_map(masked_unit).filter(|unit| units::is_protected(unit)) {
            let reason = format!(
                "`systemd.mask={unit}` would take the agent away: {}; remove the argument",
                units::purpose(&unit)
            );
            refused.push(Refusal::new(format!("spec.kernelArguments[{index}]"), reason));
        }
    }
}

/// Return the unit that a kernel argument masks, as systemd reads it: quotes can stand anywhere, and a name without a type is
/// that of a service.
fn masked_unit(argument: &KernelArgument) -> Option<String> {
    let argument = argument.as_str().replace('"', "");
    let name = argument.strip_prefix("systemd.mask=")?;
    Some(if UnitName::parse(name).is_ok() { name.to_owned() } else { format!("{name}.service") })
}

/// List warnings about entries that are applied as they are.
#[must_use]
pub fn warnings(config: &HostConfig) -> Vec<String> {
    let all = config.files.keys().chain(config.directories.keys()).chain(config.links.keys());
    let volatile = all.filter(|path| paths::canonical(path).is_within("/run"));
    let warning = |path: &ManagedPath| {
        format!("{path}: `/run` does not outlive a boot; list a path below /etc or /var instead")
    };
    volatile.map(warning).collect()
}

#[cfg(test)]
mod tests;
