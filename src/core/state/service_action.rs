//! One request to systemd that makes running services take up a change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::core::enablement::UnitName;

/// One thing that is asked of systemd. It is kept in a journal, so its spelling there is fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum ServiceAction {
    /// It rereads all unit files.
    DaemonReload,
    /// A unit rereads its configuration.
    Reload {
        /// The unit.
        unit: UnitName,
    },
    /// A unit is restarted, or started where it does not run.
    Restart {
        /// The unit.
        unit: UnitName,
    },
}

impl ServiceAction {
    /// The unit that it is about; none for a rereading of them all.
    #[must_use]
    pub fn unit(&self) -> Option<&UnitName> {
        match self {
            Self::DaemonReload => None,
            Self::Reload { unit } | Self::Restart { unit } => Some(unit),
        }
    }

    pub(crate) fn restarted(&self) -> Option<&UnitName> {
        match self {
            Self::Restart { unit } => Some(unit),
            Self::DaemonReload | Self::Reload { .. } => None,
        }
    }
}

impl fmt::Display for ServiceAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DaemonReload => f.write_str("making systemd reread its unit files"),
            Self::Reload { unit } => write!(f, "reloading {unit}"),
            Self::Restart { unit } => write!(f, "restarting {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> UnitName {
        UnitName::parse(name).unwrap()
    }

    #[test]
    fn a_journal_keeps_them() {
        for (action, text) in [
            (ServiceAction::DaemonReload, r#"{"type":"daemonReload"}"#),
            (
                ServiceAction::Reload { unit: unit("a@b.service") },
                r#"{"type":"reload","unit":"a@b.service"}"#,
            ),
            (ServiceAction::Restart { unit: unit("a.service") }, r#"{"type":"restart","unit":"a.service"}"#),
        ] {
            assert_eq!(serde_json::to_string(&action).unwrap(), text);
            assert_eq!(serde_json::from_str::<ServiceAction>(text).unwrap(), action);
        }
        for bad in [r#"{"type":"restart"}"#, r#"{"type":"restart","unit":"../x"}"#, r#"{"type":"stop"}"#] {
            assert!(serde_json::from_str::<ServiceAction>(bad).is_err(), "{bad}");
        }
    }
}
