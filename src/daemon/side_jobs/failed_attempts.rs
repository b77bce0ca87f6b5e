//! Failed attempts of a job outside the lifecycle, and the time of the next one.

use tokio::time::Instant;

use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;

/// Failed attempts in a row, and the time of the next one.
#[derive(Debug, Default)]
pub(in crate::daemon) struct FailedAttempts {
    pub(in crate::daemon) number: u32,
    pub(in crate::daemon) retry_at: Option<Instant>,
}

impl FailedAttempts {
    /// Count a failure; another attempt waits for the backoff of `class`.
    pub(in crate::daemon) fn fail(&mut self, class: RetryClass) {
        self.number = self.number.saturating_add(1);
        self.retry_at = Some(Instant::now() + class.backoff(self.number, boot::jitter()));
    }
}
