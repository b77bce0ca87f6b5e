//! Drop-ins of the workload's units, which start on a complete configuration only. They test for the mark of an unconfirmed
//! generation, and are written into the same `/etc`.

use std::collections::BTreeMap;

use super::unconfirmed_mark::{ACTIVATED, UNCONFIRMED};
use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::managed_files::unit_path;
use crate::core::enablement::{UnitFile, UnitName};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::AGENT_DROP_IN;

/// Beginning of the drop-ins, by which they are found again.
const HEADER: &str = "# Written by flameholder for a unit of the workload (`boot-check.workload`).";

/// Units that put the files of a generation in place.
const ACTIVATION: &str = "flameholder-activate.service flameholder-activate-mounts.service";

/// Return the path of the drop-in of `unit`.
#[must_use]
pub fn path(unit: &UnitName) -> ManagedPath {
    unit_path(&format!("{}.d/{AGENT_DROP_IN}", unit.as_str()))
}

/// Return the unit of the drop-in directory `name`, such as `kubelet.service.d`, below [`UNIT_DIRECTORY`], with the path
/// that the drop-in has there.
#[must_use]
pub fn in_directory(name: &str) -> Option<(UnitName, ManagedPath)> {
    let unit = UnitName::parse(name.strip_suffix(".d")?).ok()?;
    Some((unit, ManagedPath::constant(UNIT_DIRECTORY).join(name).join(AGENT_DROP_IN)))
}

/// Return true if the drop-in with this text is one of these.
#[must_use]
pub fn is_own(text: &[u8]) -> bool {
    text.starts_with(HEADER.as_bytes())
}

/// Return the drop-in of `unit`, whose files are `texts`. Its start needs no mark or a successful activation; a unit
/// whose start is skipped has not failed.
#[must_use]
pub fn text(unit: &UnitName, texts: &BTreeMap<ManagedPath, UnitFile>) -> String {
    let order = format!(
        "{HEADER}\n# Only an unconfirmed generation has the mark in /etc; it needs an activation that succeeded in this boot.\n\
         [Unit]\nWants={ACTIVATION}\nAfter={ACTIVATION}\n"
    );
    if unit.as_str().ends_with(".service") && has_triggering_conditions(unit, texts) {
        return format!(
            "{order}# The unit has triggering conditions of its own, any of which would suffice.\n\
             [Service]\nExecCondition=+sh -c 'test ! -e {UNCONFIRMED} || test -e {ACTIVATED}'\n"
        );
    }
    format!(
        "{order}# One of them suffices.\nConditionPathExists=|!{UNCONFIRMED}\nConditionPathExists=|{ACTIVATED}\n"
    )
}

/// Return true if the unit has a condition that begins with `|` (`systemd.unit(5)`) in a file other than the drop-in.
fn has_triggering_conditions(unit: &UnitName, texts: &BTreeMap<ManagedPath, UnitFile>) -> bool {
    let own = path(unit);
    let is_trigger = |line: &str| {
        line.trim_start()
            .strip_prefix("Condition")
            .and_then(|rest| rest.split_once('='))
            .is_some_and(|(_, value)| value.trim_start().starts_with('|'))
    };
    texts.iter().filter(|(path, _)| **path != own).any(|(_, file)| match file {
        UnitFile::Regular(text) => text.lines().any(is_trigger),
        UnitFile::Symlink(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(unit: &str, text: &str) -> String {
        let unit = UnitName::parse(unit).unwrap();
        let texts = [
            (unit_path(unit.as_str()), UnitFile::Regular(text.to_owned())),
            (path(&unit), UnitFile::Regular("[Unit]\nConditionPathExists=|/x\n".to_owned())),
        ];
        super::text(&unit, &texts.into_iter().collect())
    }

    #[test]
    fn unit_is_gated_by_conditions_unless_it_has_triggering_ones() {
        for text in ["", "[Unit]\nConditionPathExists=/a\nDescription=Condition=|\n"] {
            let gate = gate("kubelet.service", text);
            assert!(
                is_own(gate.as_bytes()) && gate.contains("\nAfter=flameholder-activate.service "),
                "{gate}"
            );
            assert!(gate.contains("ConditionPathExists=|!/etc/flameholder/unconfirmed\n"), "{gate}");
            assert!(!gate.contains("ExecCondition"), "{gate}");
        }
        for text in ["[Unit]\nConditionPathExists=|/a\n", "[Unit]\n ConditionHost = |!a\n"] {
            let gate = gate("kubelet.service", text);
            assert!(gate.contains("[Service]\nExecCondition=+sh -c 'test ! -e"), "{gate}");
            assert!(!gate.contains("ConditionPathExists"), "{gate}");
        }
        assert!(
            gate("k3s.target", "[Unit]\nConditionPathExists=|/a\n").contains("ConditionPathExists=|/run/")
        );
    }

    #[test]
    fn drop_in_directory_names_its_unit() {
        let (unit, path) = in_directory("k3s.service.d").unwrap();
        assert_eq!((unit.as_str(), path), ("k3s.service", super::path(&unit)));
        for other in ["k3s.service", "service.d", "k3s.service.wants", ".d"] {
            assert!(in_directory(other).is_none(), "{other}");
        }
        assert!(!is_own(b"[Unit]\n"));
    }
}
