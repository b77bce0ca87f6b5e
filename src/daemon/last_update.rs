//! Report of the last update in the journal: told once, when the host is as desired.

use crate::core::daemon::lifecycle::DaemonPhase;

/// Last update of this boot.
#[derive(Debug, Default)]
pub(super) struct LastUpdate {
    /// Line that tells it.
    found: Option<String>,
    is_told: bool,
}

impl LastUpdate {
    /// Take note of the last update of this boot.
    pub(super) fn find(&mut self, found: Option<String>) {
        if self.found != found {
            *self = Self { found, is_told: false };
        }
    }

    /// Return the end of the line about `phase`: an update that was not told yet, if it is complete.
    pub(super) fn take_news(&mut self, phase: &DaemonPhase) -> String {
        match &self.found {
            Some(update) if !self.is_told && *phase == DaemonPhase::Done => {
                self.is_told = true;
                format!(" ({update})")
            }
            _ => String::new(),
        }
    }
}
