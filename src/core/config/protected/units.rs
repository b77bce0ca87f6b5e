//! Protected units: the agent's own, and the one of ostree that writes the boot entries. A config can neither
//! mask, replace nor disable them, in whichever unit directory.

use super::{ConfigItem, ProtectedEntry, StorageKind, drop_ins};
use crate::core::config::host_config::{HostConfig, UNIT_DIRECTORY, UnitSpec};
use crate::core::enablement::{SystemdVersion, UnitName, affected_units};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::AGENT_DROP_IN;
use crate::core::values::refusal::Refusal;

const DAEMON: &str = "flameholder-daemon.service";

/// Units of the agent.
pub const AGENT_UNITS: [&str; 6] = [
    "flameholder-activate.service",
    "flameholder-activate-mounts.service",
    DAEMON,
    "flameholder-firstboot.service",
    "flameholder-recover.service",
    "flameholder-confirm-boot.service",
];

/// Units of ostree without which no staged deployment is finalized.
const OSTREE_UNITS: [&str; 2] = ["ostree-finalize-staged.service", "ostree-finalize-staged.path"];

/// Directories in which systemd looks for units (`systemd.unit(5)`), by the path that aliases resolve to.
pub(super) const UNIT_DIRECTORIES: [&str; 12] = [
    UNIT_DIRECTORY,
    "/etc/systemd/system.control",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.control",
    "/run/systemd/system.attached",
    "/run/systemd/transient",
    "/run/systemd/generator",
    "/run/systemd/generator.early",
    "/run/systemd/generator.late",
    "/var/usrlocal/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// Return true if the unit is the agent's own.
#[must_use]
pub fn is_agent_unit(name: &str) -> bool {
    AGENT_UNITS.contains(&name)
}

/// Return true if a config must not mask, replace or disable the unit.
#[must_use]
pub fn is_protected(name: &str) -> bool {
    is_agent_unit(name) || OSTREE_UNITS.contains(&name)
}

/// Name the purpose of a protected unit.
pub(super) fn purpose(name: &str) -> &'static str {
    if is_agent_unit(name) { "it is a unit of the agent" } else { "the agent finalizes deployments with it" }
}

/// Find the entries of `systemd.units` that no host takes.
pub(super) fn entries(config: &HostConfig) -> impl Iterator<Item = ProtectedEntry> {
    config.units.iter().flat_map(|(name, unit)| {
        let field = format!("spec.config.systemd.units[{}]", unit.index);
        let mut found = Vec::new();
        if let Some((part, reason)) = unit_refusal(name, unit).or_else(|| {
            let reason = install_refusal(name, unit.contents.as_deref()?)?;
            Some(("contents", reason))
        }) {
            let refusal = Refusal::new(format!("{field}.{part}"), reason);
            found.push(ProtectedEntry { item: ConfigItem::Unit(name.clone()), refusal });
        }
        for (drop_in, text) in &unit.drop_ins {
            let shown = format!("drop-in {drop_in} of {name}");
            let reason = drop_in_refusal(&shown, &format!("{name}.d"), drop_in, text.as_bytes());
            if let Some(reason) = reason.or_else(|| install_refusal(name, text)) {
                let refusal = Refusal::new(format!("{field}.dropins"), reason);
                let item = ConfigItem::DropIn(name.clone(), drop_in.clone());
                found.push(ProtectedEntry { item, refusal });
            }
        }
        found
    })
}

fn unit_refusal(name: &str, unit: &UnitSpec) -> Option<(&'static str, String)> {
    if !is_protected(name) {
        return None;
    }
    let (part, what) = if unit.mask.is_some() {
        // `mask: false` removes the unit's file below /etc, where the agent is installed.
        ("mask", "masked or unmasked")
    } else if unit.contents.is_some() {
        ("contents", "replaced")
    } else if unit.enabled == Some(false) {
        ("enabled", "disabled")
    } else {
        return None;
    };
    let purpose = purpose(name);
    Some((part, format!("{name} cannot be {what} by a config: {purpose}; remove `{part}` from the entry")))
}

/// Refuse `[Install]` of another unit that names a protected one: enabled, the unit would take its name or hold it back, and
/// disabled, it would disable the other as well.
fn install_refusal(name: &str, text: &str) -> Option<String> {
    let parsed = UnitName::parse(name).ok().filter(|_| !is_protected(name))?;
    let affected = affected_units(&parsed, text, SystemdVersion(257));
    let (key, named) = affected.into_iter().find(|(_, named)| is_protected(named))?;
    Some(format!("`{key}={named}` would change {named}: {}; remove the line", purpose(&named)))
}

/// Return true for a drop-in of the agent: for a unit of ostree, of MCD or of the workload, which settings list.
fn is_agent_drop_in(directory: &str, name: &str) -> bool {
    name == AGENT_DROP_IN && directory.rsplit_once('.').is_some_and(|(_, suffix)| suffix == "d")
}

/// Return the reason for which no host takes the drop-in `name` with this text in `directory`, such as
/// `a.service.d`. `shown` names the drop-in.
fn drop_in_refusal(shown: &str, directory: &str, name: &str, text: &[u8]) -> Option<String> {
    if is_agent_drop_in(directory, name) {
        return Some(format!("{shown} is the agent's own; choose another name"));
    }
    let unit = extended_by(directory)?;
    if directory.strip_suffix(".d") != Some(DAEMON) {
        return Some(format!("{shown} would change {unit}: {}; remove the entry", purpose(unit)));
    }
    let key = drop_ins::refused_line(text)?;
    Some(format!(
        "{shown} sets {key}, which could keep the agent from running; remove it (accepted: {})",
        drop_ins::ACCEPTED
    ))
}

/// Return the first protected unit that reads drop-ins from `directory`: named after the unit, or after a
/// prefix of it that ends with a dash. Directories of a whole type, such as `service.d`, are no concern.
fn extended_by(directory: &str) -> Option<&'static str> {
    let stem = directory.strip_suffix(".d")?;
    let (prefix, suffix) = stem.rsplit_once('.')?;
    let mut protected = AGENT_UNITS.iter().chain(&OSTREE_UNITS).copied();
    protected.find(|unit| {
        let is_prefixed = prefix.ends_with('-') && unit.starts_with(prefix);
        *unit == stem || is_prefixed && unit.rsplit_once('.').is_some_and(|(_, kind)| kind == suffix)
    })
}

/// Return the reason for which no host takes an entry at `path`, which `resolved` is another name of, in a
/// unit directory.
pub(super) fn path_refusal(
    path: &ManagedPath,
    resolved: &ManagedPath,
    kind: StorageKind<'_>,
) -> Option<String> {
    let directory = UNIT_DIRECTORIES.iter().find(|directory| resolved.is_within(directory))?;
    let below = resolved.as_str().strip_prefix(directory)?.strip_prefix('/')?;
    let (first, second) = below.split_once('/').unwrap_or((below, ""));
    if is_protected(first) {
        return Some(format!("{path} would replace a unit: {}; remove the entry", purpose(first)));
    }
    let (stem, relation) = first.rsplit_once('.')?;
    let linked = ["wants", "requires", "upholds"].contains(&relation).then_some(second);
    if let Some(unit) = linked.filter(|unit| is_protected(unit)) {
        return Some(format!("{path} would change when {unit} starts: {}; remove the entry", purpose(unit)));
    }
    if is_protected(stem) && relation == "requires" {
        return Some(format!("{path} could keep {stem} from starting: {}; remove the entry", purpose(stem)));
    }
    if is_agent_drop_in(first, second) {
        return Some(format!("{path} is the agent's own; choose another name"));
    }
    match kind {
        StorageKind::Directory if second.is_empty() => None,
        StorageKind::File(text) if !second.is_empty() => drop_in_refusal(path.as_str(), first, second, text),
        _ => extended_by(first).map(|unit| {
            let purpose = purpose(unit);
            format!("{path} must be a file with the drop-in of {unit}: {purpose}; remove the entry")
        }),
    }
}
