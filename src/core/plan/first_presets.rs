//! Preset file for the first boot of an `/etc`. systemd detects a first boot by the machine ID, and then
//! enables and disables all units by its presets (machine-id(5), systemd.preset(5)), which would undo the
//! enablement that the configuration asks for.

use super::unit_texts::PRESET_PATH;
use crate::core::config::host_config::HostConfig;
use crate::core::enablement::{NameKind, UnitName};
use crate::core::values::names::ManagedPath;

/// File name that sorts before all others, since the first preset to name a unit decides.
const NAME: &str = "00-flameholder.preset";

/// Return the path of the preset file.
#[must_use]
pub fn path() -> ManagedPath {
    ManagedPath::constant("/etc/systemd/system-preset").join(NAME)
}

/// Return true if `path` is the agent's preset file, which is no preset of the OS or of an administrator.
#[must_use]
pub fn is_ours(path: &ManagedPath) -> bool {
    path.file_name() == NAME && PRESET_PATH.iter().any(|directory| path.is_within(directory))
}

/// Return true if the next boot is the machine's first, by the content of `/etc/machine-id`. With an empty
/// file systemd itself applies no presets, but a tool that prepares images may.
#[must_use]
pub fn is_first_boot_ahead(machine_id: Option<&[u8]>) -> bool {
    machine_id.is_none_or(|text| matches!(text.trim_ascii(), b"uninitialized" | b""))
}

/// Return the preset file's text: enablement of each unit as the config sets it; `None` where it sets none.
#[must_use]
pub fn text(config: &HostConfig) -> Option<String> {
    let line = |(name, enabled): (&String, bool)| {
        let verb = if enabled { "enable" } else { "disable" };
        let unit = UnitName::parse(name).ok()?;
        let words = match (unit.kind(), unit.template()) {
            (NameKind::Instance, Some(template)) => format!("{} {}", template.as_str(), unit.instance()),
            _ => name.clone(),
        };
        Some(format!("{verb} {words}\n"))
    };
    let said = config.units.iter().filter_map(|(name, unit)| Some((name, unit.enabled?)));
    let text: String = said.filter_map(line).collect();
    (!text.is_empty()).then(|| {
        format!("# Enablement of units for the first boot; the next configuration removes this file.\n{text}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::host_config::UnitSpec;

    #[test]
    fn preset_lines_follow_the_configuration() {
        let unit = |enabled| UnitSpec { enabled, ..UnitSpec::default() };
        let units = [
            ("a.service", Some(true)),
            ("b@.service", Some(false)),
            ("b@x.service", Some(true)),
            ("c.service", None),
        ];
        let units = units.into_iter().map(|(name, enabled)| (name.to_owned(), unit(enabled))).collect();
        let config = HostConfig { units, ..HostConfig::default() };
        let text = text(&config).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["enable a.service", "disable b@.service", "enable b@.service x"]);
        assert_eq!(super::text(&HostConfig::default()), None);
        assert!(is_ours(&path()) && !is_ours(&ManagedPath::constant("/etc/00-flameholder.preset")));
    }

    #[test]
    fn first_boot_is_detected_by_the_machine_id() {
        for (text, expected) in [
            (None, true),
            (Some(&b"uninitialized\n"[..]), true),
            (Some(b"\n"), true),
            (Some(b"0123\n"), false),
        ] {
            assert_eq!(is_first_boot_ahead(text), expected, "{text:?}");
        }
    }
}
