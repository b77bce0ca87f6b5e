//! Message buses of the tests, and the services on them.

pub mod dbus_daemon;
pub mod fake_logind;
pub mod fake_pid1;
pub mod fake_systemd;
mod owner;
pub mod private_bus;
pub mod real_systemd;
