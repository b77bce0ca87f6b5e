//! How running services take up a change that needs no reboot: what is asked of systemd, in order.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Action, CONTAINER_RUNTIME};
use crate::core::enablement::{InvalidUnitName, UnitName};
use crate::core::plan::disruption::Disruption;

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

/// Why a change cannot reach the running system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLive {
    /// Something asks for a reboot.
    #[error("only a reboot makes this change take effect: {}", summary(because))]
    Reboot {
        /// What asks for it, one line per cause.
        because: Vec<String>,
    },
    /// A policy names a unit that cannot exist.
    #[error("an action for a unit")]
    Unit(#[from] InvalidUnitName),
}

fn summary(because: &[String]) -> String {
    match because {
        [] => "its policy says so".to_owned(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    }
}

impl ServiceAction {
    /// The actions that `disruption` asks for, in its order; none where nothing is interrupted.
    ///
    /// A drain is not among them: it is asked of the cluster, before the change.
    pub fn of(disruption: &Disruption) -> Result<Vec<Self>, NotLive> {
        let mut actions = Vec::new();
        for required in &disruption.actions {
            actions.extend(match &required.action {
                Action::None | Action::Drain => None,
                Action::DaemonReload => Some(Self::DaemonReload),
                Action::Reload(unit) => Some(Self::Reload { unit: UnitName::parse(unit)? }),
                Action::Restart(unit) => Some(Self::Restart { unit: UnitName::parse(unit)? }),
                Action::Special => Some(Self::Reload { unit: UnitName::parse(CONTAINER_RUNTIME)? }),
                Action::Reboot => return Err(NotLive::Reboot { because: required.because.clone() }),
            });
        }
        // Every file is in place before the first action, so a restart reads all that a reload would.
        let restarted: Vec<UnitName> = actions.iter().filter_map(Self::restarted).cloned().collect();
        actions.retain(|action| !matches!(action, Self::Reload { unit } if restarted.contains(unit)));
        // A reload that is asked for twice stays twice where something stands between: each of the
        // two may have to follow, or to precede, what is there.
        actions.dedup();
        Ok(actions)
    }

    /// The unit that it is about; none for a rereading of them all.
    #[must_use]
    pub fn unit(&self) -> Option<&UnitName> {
        match self {
            Self::DaemonReload => None,
            Self::Reload { unit } | Self::Restart { unit } => Some(unit),
        }
    }

    fn restarted(&self) -> Option<&UnitName> {
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
    use crate::core::plan::disruption::Required;

    fn reload(unit: &str) -> ServiceAction {
        ServiceAction::Reload { unit: UnitName::parse(unit).unwrap() }
    }

    fn restart(unit: &str) -> ServiceAction {
        ServiceAction::Restart { unit: UnitName::parse(unit).unwrap() }
    }

    fn of(actions: &[Action]) -> Result<Vec<ServiceAction>, NotLive> {
        let required = |action: &Action| Required { action: action.clone(), because: vec!["x".into()] };
        let actions = actions.iter().map(required).collect();
        ServiceAction::of(&Disruption { actions, drain: false })
    }

    #[test]
    fn the_actions_of_a_disruption() {
        let (asked_reload, asked_restart) =
            (|unit: &str| Action::Reload(unit.into()), |unit: &str| Action::Restart(unit.into()));
        let crio = "crio.service";
        let rows = [
            (vec![], vec![]),
            (vec![Action::None], vec![]),
            (vec![Action::Drain], vec![]),
            (
                vec![Action::DaemonReload, asked_restart("a.service"), asked_reload("b.service")],
                vec![ServiceAction::DaemonReload, restart("a.service"), reload("b.service")],
            ),
            (vec![Action::Drain, Action::Special], vec![reload(crio)]),
            (vec![Action::Special, asked_restart(crio)], vec![restart(crio)]),
            (vec![asked_restart(crio), Action::Special], vec![restart(crio)]),
            (vec![asked_reload("a.service"), asked_restart("a.service")], vec![restart("a.service")]),
            (vec![asked_reload(crio), Action::Special], vec![reload(crio)]),
            (
                vec![Action::Special, asked_restart("a.service"), asked_reload(crio)],
                vec![reload(crio), restart("a.service"), reload(crio)],
            ),
        ];
        for (asked, expected) in rows {
            assert_eq!(of(&asked), Ok(expected), "{asked:?}");
        }
    }

    #[test]
    fn what_cannot_be_made_live() {
        let reboot = of(&[Action::Restart("a.service".into()), Action::Reboot]);
        assert_eq!(reboot, Err(NotLive::Reboot { because: vec!["x".into()] }));
        assert!(matches!(of(&[Action::Restart("no unit".into())]), Err(NotLive::Unit(_))));
        let because = ["a changes", "b changes", "c changes"].map(str::to_owned).to_vec();
        let text = NotLive::Reboot { because }.to_string();
        assert_eq!(text, "only a reboot makes this change take effect: a changes, and 2 more");
    }

    #[test]
    fn a_journal_keeps_them() {
        for (action, text) in [
            (ServiceAction::DaemonReload, r#"{"type":"daemonReload"}"#),
            (reload("a@b.service"), r#"{"type":"reload","unit":"a@b.service"}"#),
            (restart("a.service"), r#"{"type":"restart","unit":"a.service"}"#),
        ] {
            assert_eq!(serde_json::to_string(&action).unwrap(), text);
            assert_eq!(serde_json::from_str::<ServiceAction>(text).unwrap(), action);
        }
        for bad in [r#"{"type":"restart"}"#, r#"{"type":"restart","unit":"../x"}"#, r#"{"type":"stop"}"#] {
            assert!(serde_json::from_str::<ServiceAction>(bad).is_err(), "{bad}");
        }
    }
}
