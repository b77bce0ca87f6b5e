//! Decoding of `systemd.units`, with Ignition's checks: unit and drop-in names, duplicates, and unit file syntax.

use std::collections::BTreeMap;

use super::host_config::UnitSpec;
use super::ignition::newest;
use crate::core::enablement::UnitName;
use crate::core::values::names::ensure_drop_in_name;
use crate::core::values::refusal::Refusal;

/// Longest name of a unit, in bytes: with `.requires` appended it must still be a file name.
const LONGEST_NAME: usize = 255 - ".requires".len();

/// Decode the units; errors are added to `refused`. Their texts are not checked.
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
        let mut drop_ins = BTreeMap::new();
        for (nth, dropin) in unit.dropins.as_deref().unwrap_or_default().iter().enumerate() {
            let contents = dropin.contents.clone().unwrap_or_default();
            if let Err(reason) = ensure_drop_in_name(&dropin.name) {
                refuse(&format!("dropins[{nth}].name"), reason);
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

/// Refuse unit and drop-in texts without the syntax of a unit file. MCD applies some of them, and Ignition of another version may.
pub fn refuse_syntax(units: &[newest::Unit], refused: &mut Vec<Refusal>) {
    for (index, unit) in units.iter().enumerate() {
        let mut check = |part: &str, text: Option<&String>| {
            let problem = text.and_then(|text| ensure_syntax(text).err());
            let field = || format!("spec.config.systemd.units[{index}].{part}");
            refused.extend(problem.map(|reason| Refusal::new(field(), reason)));
        };
        check("contents", unit.contents.as_ref());
        for (nth, drop_in) in unit.dropins.as_deref().unwrap_or_default().iter().enumerate() {
            check(&format!("dropins[{nth}].contents"), drop_in.contents.as_ref());
        }
    }
}

/// Check that `text` has the syntax of a unit file, as Ignition and MCD check it with go-systemd.
fn ensure_syntax(text: &str) -> Result<(), String> {
    UnitLexer { text, rest: text }.check()
}

/// Lexer of a unit file, by the rules of go-systemd: text before the first section is skipped, and a backslash continues comments
/// too. Unlike there, and as in `systemd.syntax(7)`, a comment between continuation lines does not end the assignment.
struct UnitLexer<'a> {
    text: &'a str,
    /// Text that is still to be read.
    rest: &'a str,
}

impl<'a> UnitLexer<'a> {
    fn check(mut self) -> Result<(), String> {
        let mut in_section = false;
        loop {
            let mut following = self.rest.chars();
            match following.next() {
                None => return Ok(()),
                Some('[') => {
                    self.section()?;
                    in_section = true;
                }
                Some('#' | ';') => self.comment(),
                Some(skipped) if !in_section || skipped.is_whitespace() => self.rest = following.as_str(),
                Some(_) => self.assignment()?,
            }
        }
    }

    fn section(&mut self) -> Result<(), String> {
        let start = self.rest;
        if let Some((_, rest)) = start.split_once(']') {
            self.rest = rest;
            if self.line().trim().is_empty() {
                return Ok(());
            }
        }
        Err(self.not("a section such as `[Unit]`", start))
    }

    fn comment(&mut self) {
        loop {
            let line = self.line();
            if !line.strip_suffix(' ').unwrap_or(line).ends_with('\\') {
                return;
            }
        }
    }

    fn assignment(&mut self) -> Result<(), String> {
        let at = self.rest.find(['=', '\n', '\r']);
        let value = at.and_then(|at| self.rest.get(at..)?.strip_prefix('='));
        self.rest = value.ok_or_else(|| self.not("`Key=value`", self.rest))?;
        let mut continued = self.line().ends_with('\\');
        while continued && !self.rest.is_empty() {
            let line = self.line();
            continued = line.ends_with('\\') || line.trim_start().starts_with(['#', ';']);
        }
        Ok(())
    }

    /// Read up to the end of the line.
    fn line(&mut self) -> &'a str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    /// Describe the line at which `rest` begins as something else than `expected`.
    fn not(&self, expected: &str, rest: &str) -> String {
        let line = self.text.lines().count() - rest.lines().count() + 1;
        format!("line {line} is not {expected}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_text_that_ignition_accepts_is_accepted() {
        for good in [
            "",
            "\n",
            "# only a comment\n",
            "Description=before\nnonsense\n[Unit]\nA=b\n",
            "A=b\n",
            "# not a section: [Unit\n[Unit]\nA=b\n",
            "# continued \\\n[Unit\n[Unit]\nA=b\n",
            "; continued \\ \nnonsense\n[Unit]\nA=b\n",
            "[Unit]\n# continued \\\nnonsense\nA=b\n",
            "[Unit]\nA=b\n",
            "[Unit] \r\nA=b\r\n\r\n[S]\r\n",
            "[S]\nX=a \\\n# note\n  b\nY=1\n",
            "[S]\nX=a \\\n\nY=1",
            "[S]\nX=a\\",
            "[S]\nX=\n",
            "[S]\n=x\n",
        ] {
            assert_eq!(ensure_syntax(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn unit_text_that_ignition_refuses_is_refused_with_its_line() {
        for (bad, line) in [
            ("[Unit]\nnonsense\n", 2),
            ("[Unit]\nA=b\n\nnonsense", 4),
            ("[Unit\nA=b", 1),
            ("\n[Unit] A=b\n", 2),
            ("[Unit]\nA=b \\\n c\nd\r=1\n", 4),
        ] {
            let reason = ensure_syntax(bad).unwrap_err();
            assert!(reason.starts_with(&format!("line {line} is not ")), "{bad:?}: {reason}");
        }
    }
}
