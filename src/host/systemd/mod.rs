//! systemd and logind over D-Bus: units, jobs, inhibitor locks, reboot.

pub mod journal;
pub(crate) mod login_bus;
pub mod logind;
pub mod pid1;
pub(crate) mod private_socket;
pub(crate) mod reboot_error;
pub mod reboot_port;
pub mod service_port;
pub(crate) mod system_bus;
pub mod system_status;
pub(crate) mod transient_unit;
pub mod unit_jobs;
