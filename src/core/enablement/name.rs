//! Unit names, as systemd.unit(5) defines them.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest unit name, in bytes.
const LENGTH_MAX: usize = 255;

const UNIT_TYPES: [&str; 11] = [
    "automount",
    "device",
    "mount",
    "path",
    "scope",
    "service",
    "slice",
    "socket",
    "swap",
    "target",
    "timer",
];

/// A valid unit name with its type suffix: `crio.service`, `getty@.service`, `getty@tty1.service`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UnitName(String);

/// Plain unit, template, or instance of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// `crio.service`
    Plain,
    /// `getty@.service`
    Template,
    /// `getty@tty1.service`
    Instance,
}

/// A string that is not a unit name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid unit name")]
pub struct InvalidUnitName {
    pub name: String,
}

impl UnitName {
    /// Parse a name by systemd's rules: a known type suffix; letters, digits and `:-_.\@`; no `@` in front;
    /// at most 255 bytes.
    pub fn parse(name: &str) -> Result<Self, InvalidUnitName> {
        let valid = name.len() <= LENGTH_MAX
            && name.rsplit_once('.').is_some_and(|(stem, suffix)| {
                UNIT_TYPES.contains(&suffix) && !stem.starts_with('@') && is_instance(stem)
            });
        if valid { Ok(Self(name.to_owned())) } else { Err(InvalidUnitName { name: name.to_owned() }) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind of the name: template, instance of one, or neither.
    #[must_use]
    pub fn kind(&self) -> NameKind {
        match self.stem().split_once('@') {
            None => NameKind::Plain,
            Some((_, "")) => NameKind::Template,
            Some(_) => NameKind::Instance,
        }
    }

    /// The name without its type suffix: `getty@tty1`.
    pub(super) fn stem(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(stem, _)| stem)
    }

    /// The part before the `@`, or the stem: `getty`.
    pub(super) fn prefix(&self) -> &str {
        self.stem().split_once('@').map_or(self.stem(), |(prefix, _)| prefix)
    }

    /// The instance string, between `@` and the suffix: `tty1`; empty unless this is an instance.
    #[must_use]
    pub fn instance(&self) -> &str {
        self.stem().split_once('@').map_or("", |(_, instance)| instance)
    }

    /// The unit type: `service`.
    pub(super) fn unit_type(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, suffix)| suffix)
    }

    /// The template's name of a template or an instance; `None` for a plain unit.
    #[must_use]
    pub fn template(&self) -> Option<Self> {
        (self.kind() != NameKind::Plain).then(|| Self(format!("{}@.{}", self.prefix(), self.unit_type())))
    }

    /// This template or instance with another instance string; `None` for a plain unit, or if the result is
    /// not a valid name.
    #[must_use]
    pub fn with_instance(&self, instance: &str) -> Option<Self> {
        if self.kind() == NameKind::Plain || !is_instance(instance) {
            return None;
        }
        Self::parse(&format!("{}@{instance}.{}", self.prefix(), self.unit_type())).ok()
    }

    /// True if units of this type may have templates.
    pub(super) fn may_be_template(&self) -> bool {
        matches!(self.unit_type(), "service" | "socket" | "target" | "timer" | "path")
    }

    /// True if units of this type may have aliases.
    pub(super) fn may_have_aliases(&self) -> bool {
        self.may_be_template() || self.unit_type() == "device"
    }
}

/// True if a string may be the instance part of a name, after the `@`.
pub(super) fn is_instance(instance: &str) -> bool {
    !instance.is_empty()
        && instance.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte))
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for UnitName {
    type Error = InvalidUnitName;
    fn try_from(name: String) -> Result<Self, InvalidUnitName> {
        Self::parse(&name)
    }
}

impl From<UnitName> for String {
    fn from(name: UnitName) -> Self {
        name.0
    }
}

impl Borrow<str> for UnitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
