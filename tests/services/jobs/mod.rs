//! Restarts and reloads of units after a change: the product's systemd client against a scripted fake and
//! against a real systemd.

mod against_fake;
mod against_real;

use flameholder::core::enablement::UnitName;
use flameholder::core::state::service_action::ServiceAction;

fn restart(unit: &str) -> ServiceAction {
    ServiceAction::Restart { unit: UnitName::parse(unit).unwrap() }
}

fn reload(unit: &str) -> ServiceAction {
    ServiceAction::Reload { unit: UnitName::parse(unit).unwrap() }
}
