//! Requests to systemd by which running services pick up a change: daemon-reload, reload, restart.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::core::enablement::UnitName;

/// One request to systemd. Journals store it, so its JSON must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum ServiceAction {
    /// `systemctl daemon-reload`: systemd rereads all unit files.
    DaemonReload,
    /// `systemctl reload`: the unit rereads its configuration.
    Reload { unit: UnitName },
    /// `systemctl restart`: the unit restarts, or starts where it is inactive.
    Restart { unit: UnitName },
}

impl ServiceAction {
    /// Return the unit of this action; `None` for a daemon-reload.
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
    fn action_round_trips_through_its_fixed_json() {
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
