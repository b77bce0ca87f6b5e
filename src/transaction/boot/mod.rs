//! The early boot: activation, the boot check, and the return to the previous generation.

pub mod activate;
pub mod automatic_rollback;
pub(crate) mod carry_forward;
pub mod confirm_boot;
pub mod early_boot;
pub mod error;
mod files_outside_etc;
pub mod first_boot;
pub(crate) mod health_checks;
mod partial_activation;
pub mod pending_recovery;
