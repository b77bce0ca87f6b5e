//! The port through which running services take up a change.

use crate::core::service_action::ServiceAction;

/// Why an act on services failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A unit's job ended with another result than success.
    #[error("{unit}: {result}; see `journalctl --unit {unit}`")]
    Failed {
        /// The unit.
        unit: String,
        /// The job's result.
        result: String,
    },
}

/// Makes running services take up what is on the disk.
pub trait Services {
    /// Carries one act out and waits for its end.
    fn perform(&self, action: &ServiceAction) -> Result<(), ServiceError>;
}

/// A tree on which nothing runs.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl Services for NoServices {
    fn perform(&self, _: &ServiceAction) -> Result<(), ServiceError> {
        Ok(())
    }
}
