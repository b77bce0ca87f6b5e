//! The `[Install]` section of a unit file and its drop-ins.

use super::SystemdVersion;
use super::lines::{WHITESPACE, escaped_words, physical, quoted_words};
use super::name::{NameKind, UnitName, is_instance};
use super::specifier::{SpecifierError, expand};

/// The reason why systemctl refuses a unit because of its files' content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// A line begins with `[` but does not end with `]`; systemd refuses such a file.
    #[error("invalid section header {line:?}")]
    Header { line: String },
    /// `Also=` lists a word that is not a unit name.
    #[error("Also= lists {word:?}, which is not a valid unit name")]
    Also {
        /// The word, with specifiers expanded.
        word: String,
    },
    /// `DefaultInstance=` has a character that an instance string cannot have.
    #[error("DefaultInstance={instance} is not a valid instance")]
    DefaultInstance {
        /// The instance string, with specifiers expanded.
        instance: String,
    },
    #[error(transparent)]
    Specifier(#[from] SpecifierError),
}

/// The content of `[Install]`. Lists hold words as written; `Also=` and `DefaultInstance=` are expanded.
#[derive(Debug, Clone, Default)]
pub(super) struct InstallSection {
    pub(super) aliases: Vec<String>,
    pub(super) wanted_by: Vec<String>,
    pub(super) required_by: Vec<String>,
    pub(super) upheld_by: Vec<String>,
    pub(super) also: Vec<UnitName>,
    pub(super) default_instance: Option<String>,
}

impl InstallSection {
    /// Add the `[Install]` section of one file. After an error, the assignments before it are kept.
    pub(super) fn read(
        &mut self,
        unit: &UnitName,
        contents: &str,
        version: SystemdVersion,
    ) -> Result<(), InstallError> {
        let mut in_install = false;
        for line in logical_lines(contents) {
            let line = line.trim_matches(WHITESPACE);
            if let Some(header) = line.strip_prefix('[') {
                let section =
                    header.strip_suffix(']').ok_or_else(|| InstallError::Header { line: line.to_owned() })?;
                in_install = section == "Install";
            } else if let Some((key, value)) = line.split_once('=')
                && in_install
            {
                self.assign(unit, key.trim_matches(WHITESPACE), value.trim_matches(WHITESPACE), version)?;
            }
        }
        Ok(())
    }

    /// Return the key and name of each unit that the section replaces, holds back or takes along when it is disabled. Words
    /// that cannot be expanded are left out: systemctl refuses them.
    pub(super) fn affected(&self, unit: &UnitName) -> Vec<(&'static str, String)> {
        let words = |key: &'static str, words: &[String]| -> Vec<_> {
            let expanded =
                words.iter().filter_map(|word| expand(word, unit, self.default_instance.as_deref()).ok());
            expanded.map(|name| (key, name)).collect()
        };
        let also = self.also.iter().map(|name| ("Also", name.as_str().to_owned()));
        let mut affected = words("Alias", &self.aliases);
        affected.extend(words("RequiredBy", &self.required_by));
        affected.extend(also);
        affected
    }

    /// True if there is nothing to enable.
    pub(super) fn is_empty(&self) -> bool {
        [&self.aliases, &self.wanted_by, &self.required_by, &self.upheld_by]
            .iter()
            .all(|list| list.is_empty())
            && self.also.is_empty()
    }

    fn assign(
        &mut self,
        unit: &UnitName,
        key: &str,
        value: &str,
        version: SystemdVersion,
    ) -> Result<(), InstallError> {
        match key {
            "WantedBy" => extend(&mut self.wanted_by, value),
            "RequiredBy" => extend(&mut self.required_by, value),
            "UpheldBy" if version.knows_upheld_by() => extend(&mut self.upheld_by, value),
            "Alias" if unit.may_have_aliases() => extend(&mut self.aliases, value),
            "Also" => self.assign_also(unit, value)?,
            "DefaultInstance" => self.assign_default_instance(unit, value)?,
            _ => {}
        }
        Ok(())
    }

    /// Extend `Also=`; unlike the other lists, it is not reset by an empty value.
    fn assign_also(&mut self, unit: &UnitName, value: &str) -> Result<(), InstallError> {
        let words = escaped_words(value).ok_or_else(|| InstallError::Also { word: value.to_owned() })?;
        for word in words {
            let word = expand(&word, unit, self.default_instance.as_deref())?;
            let name = UnitName::parse(&word).map_err(|_| InstallError::Also { word })?;
            self.also.push(name);
        }
        Ok(())
    }

    fn assign_default_instance(&mut self, unit: &UnitName, value: &str) -> Result<(), InstallError> {
        if unit.kind() != NameKind::Template {
            return Ok(());
        }
        let instance = expand(value, unit, self.default_instance.as_deref())?;
        self.default_instance = match instance.as_str() {
            "" => None,
            valid if is_instance(valid) => Some(instance),
            _ => return Err(InstallError::DefaultInstance { instance }),
        };
        Ok(())
    }
}

/// Extend a list; an empty value resets it.
fn extend(list: &mut Vec<String>, value: &str) {
    if value.is_empty() {
        list.clear();
    } else {
        list.extend(quoted_words(value));
    }
}

/// Join continued lines and leave out comments, which may also stand between continued lines.
fn logical_lines(contents: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut continued: Option<String> = None;
    for line in physical(contents.strip_prefix('\u{feff}').unwrap_or(contents)) {
        if line.trim_start_matches(WHITESPACE).starts_with(['#', ';']) {
            continue;
        }
        let mut joined = continued.take().unwrap_or_default();
        joined.push_str(line);
        let backslashes = joined.chars().rev().take_while(|&character| character == '\\').count();
        if backslashes % 2 == 1 {
            joined.pop();
            joined.push(' ');
            continued = Some(joined);
        } else {
            lines.push(joined);
        }
    }
    lines.extend(continued);
    lines
}
