//! Service actions (daemon-reload, reload, restart) of a live update, in order.

use super::disruption::Disruption;
use super::steps::PlanStep;
use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::policy::{CONTAINER_RUNTIME, DisruptionAction};
use crate::core::enablement::{InvalidUnitName, UnitName};
use crate::core::state::service_action::ServiceAction;

/// Reason why an update cannot be live.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLive {
    /// A change needs a reboot.
    #[error("this change needs a reboot: {}", summary(because))]
    Reboot {
        /// Causes, one line each.
        because: Vec<String>,
    },
    /// A disruption policy names an invalid unit.
    #[error("a disruption policy names an invalid unit")]
    Unit(#[from] InvalidUnitName),
}

fn summary(because: &[String]) -> String {
    match because {
        [] => "its disruption policy says so".to_owned(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    }
}

/// Return the service actions of `disruption`, in its order; empty if no service is affected.
///
/// A drain is no service action: the cluster is asked for it before the change.
pub fn service_actions_of(disruption: &Disruption) -> Result<Vec<ServiceAction>, NotLive> {
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
    // All files are in place before the first action, so a restart includes the effect of a reload.
    let restarted: Vec<UnitName> = actions.iter().filter_map(ServiceAction::restarted).cloned().collect();
    actions.retain(|action| !matches!(action, ServiceAction::Reload { unit } if restarted.contains(unit)));
    // Two reloads of a unit stay where another action lies between them: each may have to follow or precede
    // that action.
    actions.dedup();
    Ok(actions)
}

/// Return the daemon-reload that steps on unit files and their links need.
#[must_use]
pub fn reload_after(steps: &[PlanStep]) -> &'static [ServiceAction] {
    let is_about_units = steps.iter().any(|step| step.path().is_within(UNIT_DIRECTORY));
    if is_about_units { &[ServiceAction::DaemonReload] } else { &[] }
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

    fn service_actions_of(actions: &[DisruptionAction]) -> Result<Vec<ServiceAction>, NotLive> {
        let required =
            |action: &DisruptionAction| RequiredAction { action: action.clone(), because: vec!["x".into()] };
        let actions = actions.iter().map(required).collect();
        super::service_actions_of(&Disruption { actions, drain: false })
    }

    #[test]
    fn disruption_maps_to_service_actions() {
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
            assert_eq!(service_actions_of(&asked), Ok(expected), "{asked:?}");
        }
    }

    #[test]
    fn reboot_and_invalid_unit_are_not_live() {
        let reboot =
            service_actions_of(&[DisruptionAction::Restart("a.service".into()), DisruptionAction::Reboot]);
        assert_eq!(reboot, Err(NotLive::Reboot { because: vec!["x".into()] }));
        assert!(matches!(
            service_actions_of(&[DisruptionAction::Restart("no unit".into())]),
            Err(NotLive::Unit(_))
        ));
        let because = ["a changes", "b changes", "c changes"].map(str::to_owned).to_vec();
        let text = NotLive::Reboot { because }.to_string();
        assert_eq!(text, "this change needs a reboot: a changes, and 2 more");
    }
}
