//! Failed attempts of a job outside the lifecycle, and the time of the next one.

use tokio::time::Instant;

use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;

/// Failed attempts in a row, and the time of the next one.
#[derive(Debug, Default)]
pub(super) struct FailedAttempts {
    pub(super) number: u32,
    pub(super) retry_at: Option<Instant>,
}

impl FailedAttempts {
    /// Count a failure; another attempt waits for the backoff of `class`.
    pub(super) fn fail(&mut self, class: RetryClass) {
        self.number = self.number.saturating_add(1);
        self.retry_at = Some(Instant::now() + class.backoff(self.number, boot::jitter()));
    }
}
