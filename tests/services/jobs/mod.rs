//! How services take up a change: the port's real implementation, against a systemd that says what
//! the test wants, and against the real one.

mod against_fake;
mod against_real;

use flameholder::core::enablement::UnitName;
use flameholder::core::state::service_action::ServiceAction;

/// To restart `a.service`.
fn restart(unit: &str) -> ServiceAction {
    ServiceAction::Restart { unit: UnitName::parse(unit).unwrap() }
}

/// To reload `a.service`.
fn reload(unit: &str) -> ServiceAction {
    ServiceAction::Reload { unit: UnitName::parse(unit).unwrap() }
}
