//! The early boot: activation, the boot check, and the return to the previous generation.

pub mod activate;
pub(crate) mod carry_forward;
pub mod confirm_boot;
pub mod early_boot;
pub mod error;
pub mod first_boot;
pub(crate) mod health_checks;
pub mod pending_deployment;
