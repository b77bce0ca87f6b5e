//! How services take up a change: the port's real implementation, against a systemd that says what
//! the test wants, and against the real one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod against_fake;
mod against_real;
mod dbus_daemon;
mod fake;
mod owner;
mod private_bus;
mod real;

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

/// Says why a test does nothing here. None where it can run.
fn missing(programs: &[&str]) -> Option<String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&&str| !std::env::split_paths(&paths).any(|path| path.join(program).is_file());
    programs.iter().find(is_there).map(|program| format!("{program} is not installed"))
}
