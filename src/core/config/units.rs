//! Decoding of `systemd.units`, with Ignition's checks: unit and drop-in names, unit file syntax, duplicates.

use std::collections::BTreeMap;

use super::host_config::UnitSpec;
use super::ignition::newest;
use crate::core::enablement::UnitName;
use crate::core::values::names::ensure_drop_in_name;
use crate::core::values::refusal::Refusal;

/// Longest name of a unit, in bytes: with `.requires` appended it must still be a file name.
const LONGEST_NAME: usize = 255 - ".requires".len();

/// Decode the units; errors are added to `refused`.
pub fn decode(units: &[newest::Unit], refused: &mut Vec<Refusal>) -> BTreeMap<String, UnitSpec> {
    let mut decoded = BTreeMap::new();
    for (index, unit) in units.iter().enumerate() {
        let field = format!("spec.config.systemd.units[{index}]");
        let mut refuse = |part: &str, reason: String| {
            refused.push(Refusal::new(format!("{field}.{part}"), reason));
        };
        if let Err(invalid) = UnitName::parse(&unit.name) {
            refuse("name", invalid.to_string());
            continue;
        }
        if unit.name.len() > LONGEST_NAME {
            refuse("name", format!("the unit's name is longer than {LONGEST_NAME} bytes"));
            continue;
        }
        let contents = unit.contents.clone().filter(|contents| !contents.is_empty());
        if let Some(Err(reason)) = contents.as_deref().map(ensure_syntax) {
            refuse("contents", reason);
        }
        let mut drop_ins = BTreeMap::new();
        for (nth, dropin) in unit.dropins.as_deref().unwrap_or_default().iter().enumerate() {
            let contents = dropin.contents.clone().unwrap_or_default();
            if let Err(reason) = ensure_drop_in_name(&dropin.name) {
                refuse(&format!("dropins[{nth}].name"), reason);
            } else if let Err(reason) = ensure_syntax(&contents) {
                refuse(&format!("dropins[{nth}].contents"), reason);
            } else if drop_ins.insert(dropin.name.clone(), contents).is_some() {
                refuse(&format!("dropins[{nth}].name"), format!("duplicate drop-in {}", dropin.name));
            }
        }
        let spec = UnitSpec { index, contents, drop_ins, enabled: unit.enabled, mask: unit.mask };
        if decoded.insert(unit.name.clone(), spec).is_some() {
            refuse("name", format!("duplicate unit {}", unit.name));
        }
    }
    decoded
}

/// Check that `text` has the syntax of a unit file (`systemd.syntax(7)`): sections, assignments, comments and
/// continuation lines, and no assignment before the first section.
fn ensure_syntax(text: &str) -> Result<(), String> {
    let mut in_section = false;
    let mut continued = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let comment = trimmed.starts_with(['#', ';']);
        if continued {
            // A comment between continuation lines does not end the assignment.
            continued = comment || trimmed.ends_with('\\');
        } else if comment || trimmed.is_empty() {
        } else if trimmed.starts_with('[') && trimmed.ends_with(']') {
            in_section = true;
        } else if trimmed.contains('=') && !trimmed.starts_with('=') && in_section {
            continued = trimmed.ends_with('\\');
        } else {
            let expected = if in_section { "`Key=value`" } else { "a section such as `[Unit]`" };
            return Err(format!("line {} is not {expected}", number + 1));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_file_without_section_or_key_is_refused() {
        for good in
            ["", "# only a comment\n", "[Unit]\nA=b\n", "[S]\nX=a \\\n# note\n  b\nY=1\n", "[S]\nX=\n"]
        {
            assert_eq!(ensure_syntax(good), Ok(()), "{good:?}");
        }
        for bad in ["A=b\n", "[Unit]\nnonsense\n", "[Unit\nA=b", "[Unit]\n=x\n"] {
            assert!(ensure_syntax(bad).is_err(), "{bad:?}");
        }
    }
}
