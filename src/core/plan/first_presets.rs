//! What keeps systemd from deciding otherwise: in the first boot of an `/etc`, which it tells by the machine ID, it has its
//! presets enable and disable units (machine-id(5), systemd.preset(5)), after a configuration said which are enabled.

use super::unit_texts::PRESET_PATH;
use crate::core::config::host_config::HostConfig;
use crate::core::enablement::{NameKind, UnitName};
use crate::core::values::names::ManagedPath;

/// Sorts before all others, and the first that names a unit decides.
const NAME: &str = "00-flameholder.preset";

/// Where it lies.
#[must_use]
pub fn path() -> ManagedPath {
    ManagedPath::constant("/etc/systemd/system-preset").join(NAME)
}

/// Whether the preset file at this path is ours: what it says is no preset of the OS's or of an administrator's.
#[must_use]
pub fn is_ours(path: &ManagedPath) -> bool {
    path.file_name() == NAME && PRESET_PATH.iter().any(|directory| path.is_within(directory))
}

/// Whether the next boot is the first one of a machine: by what `/etc/machine-id` holds, if it is there. Where it is empty,
/// systemd itself applies no presets, and whoever prepares images may.
#[must_use]
pub fn is_first_boot_ahead(machine_id: Option<&[u8]>) -> bool {
    machine_id.is_none_or(|text| matches!(text.trim_ascii(), b"uninitialized" | b""))
}

/// The file's text: each unit as the configuration has it. Nothing where that is silent.
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
    (!text.is_empty())
        .then(|| format!("# Of the first boot's configuration; it is removed with the next one.\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::host_config::UnitSpec;

    #[test]
    fn units_are_as_the_configuration_has_them() {
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
    fn the_machine_id_tells() {
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
