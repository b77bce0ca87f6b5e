//! The requests to systemd that make running services take up a change, in order.

use super::disruption::Disruption;
use crate::core::config::policy::{CONTAINER_RUNTIME, DisruptionAction};
use crate::core::enablement::{InvalidUnitName, UnitName};
use crate::core::state::service_action::ServiceAction;

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

/// The actions that `disruption` asks for, in its order; none where nothing is interrupted.
///
/// A drain is not among them: it is asked of the cluster, before the change.
pub fn of(disruption: &Disruption) -> Result<Vec<ServiceAction>, NotLive> {
    let mut actions = Vec::new();
    for required in &disruption.actions {
        actions.extend(match &required.action {
            DisruptionAction::None | DisruptionAction::Drain => None,
            DisruptionAction::DaemonReload => Some(ServiceAction::DaemonReload),
            DisruptionAction::Reload(unit) => Some(ServiceAction::Reload { unit: UnitName::parse(unit)? }),
            DisruptionAction::Restart(unit) => Some(ServiceAction::Restart { unit: UnitName::parse(unit)? }),
            DisruptionAction::Special => {
                Some(ServiceAction::Reload { unit: UnitName::parse(CONTAINER_RUNTIME)? })
            }
            DisruptionAction::Reboot => return Err(NotLive::Reboot { because: required.because.clone() }),
        });
    }
    // Every file is in place before the first action, so a restart reads all that a reload would.
    let restarted: Vec<UnitName> = actions.iter().filter_map(ServiceAction::restarted).cloned().collect();
    actions.retain(|action| !matches!(action, ServiceAction::Reload { unit } if restarted.contains(unit)));
    // A reload that is asked for twice stays twice where something stands between: each of the
    // two may have to follow, or to precede, what is there.
    actions.dedup();
    Ok(actions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::plan::disruption::RequiredAction;

    fn reload(unit: &str) -> ServiceAction {
        ServiceAction::Reload { unit: UnitName::parse(unit).unwrap() }
    }

    fn restart(unit: &str) -> ServiceAction {
        ServiceAction::Restart { unit: UnitName::parse(unit).unwrap() }
    }

    fn of(actions: &[DisruptionAction]) -> Result<Vec<ServiceAction>, NotLive> {
        let required =
            |action: &DisruptionAction| RequiredAction { action: action.clone(), because: vec!["x".into()] };
        let actions = actions.iter().map(required).collect();
        super::of(&Disruption { actions, drain: false })
    }

    #[test]
    fn the_actions_of_a_disruption() {
        let (asked_reload, asked_restart) = (
            |unit: &str| DisruptionAction::Reload(unit.into()),
            |unit: &str| DisruptionAction::Restart(unit.into()),
        );
        let crio = "crio.service";
        let rows = [
            (vec![], vec![]),
            (vec![DisruptionAction::None], vec![]),
            (vec![DisruptionAction::Drain], vec![]),
            (
                vec![DisruptionAction::DaemonReload, asked_restart("a.service"), asked_reload("b.service")],
                vec![ServiceAction::DaemonReload, restart("a.service"), reload("b.service")],
            ),
            (vec![DisruptionAction::Drain, DisruptionAction::Special], vec![reload(crio)]),
            (vec![DisruptionAction::Special, asked_restart(crio)], vec![restart(crio)]),
            (vec![asked_restart(crio), DisruptionAction::Special], vec![restart(crio)]),
            (vec![asked_reload("a.service"), asked_restart("a.service")], vec![restart("a.service")]),
            (vec![asked_reload(crio), DisruptionAction::Special], vec![reload(crio)]),
            (
                vec![DisruptionAction::Special, asked_restart("a.service"), asked_reload(crio)],
                vec![reload(crio), restart("a.service"), reload(crio)],
            ),
        ];
        for (asked, expected) in rows {
            assert_eq!(of(&asked), Ok(expected), "{asked:?}");
        }
    }

    #[test]
    fn what_cannot_be_made_live() {
        let reboot = of(&[DisruptionAction::Restart("a.service".into()), DisruptionAction::Reboot]);
        assert_eq!(reboot, Err(NotLive::Reboot { because: vec!["x".into()] }));
        assert!(matches!(of(&[DisruptionAction::Restart("no unit".into())]), Err(NotLive::Unit(_))));
        let because = ["a changes", "b changes", "c changes"].map(str::to_owned).to_vec();
        let text = NotLive::Reboot { because }.to_string();
        assert_eq!(text, "only a reboot makes this change take effect: a changes, and 2 more");
    }
}
