//! Item of the status about the reboot policy of the host, and the grant of a disruption.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::config::settings::reboot_window::OpenTime;
use crate::core::state::reboot_grant::RebootGrant;
use crate::core::values::identifiers::ConfigName;

/// Reboot policy: everything that has to be granted before an update disrupts the host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebootPolicyItem {
    /// Time for which the reboot windows are open, or are open next; null if there is no window.
    pub window: Option<WindowItem>,
    /// Lock of which a slot is needed, with its group; null without one.
    pub lock: Option<String>,
    /// Grant that was requested and has not ended; null without one.
    pub grant: Option<GrantItem>,
    /// Parts of the policy that will not work as intended, each in one line.
    #[schemars(inner(length(min = 1)))]
    pub warnings: Vec<String>,
}

/// Time from the opening of a window to its end.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowItem {
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub opens: Timestamp,
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub closes: Timestamp,
}

/// Grant of a disruption.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantItem {
    /// Config of the update.
    pub config: ConfigName,
    /// Time of the first request.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
    /// True if a slot of the lock is held for it.
    pub holds_slot: bool,
}

impl RebootPolicyItem {
    /// Warn of a time that is over before an update is, which took `disruption` seconds the last time.
    #[must_use]
    pub fn warned_of_short_window(mut self, disruption: Option<u64>) -> Self {
        let length = self.window.as_ref().map(|window| window.closes.duration_since(window.opens).as_secs());
        let length = length.and_then(|seconds| u64::try_from(seconds).ok());
        if let (Some(length), Some(took)) = (length, disruption)
            && length < took
        {
            self.warnings.push(format!(
                "the reboot window is open for {} minutes, and the last update took {} from the reboot to the end of its boot check: it will end after the window",
                length / 60,
                crate::core::history::duration(took)
            ));
        }
        self
    }
}

impl From<OpenTime> for WindowItem {
    fn from(OpenTime { opens, closes }: OpenTime) -> Self {
        Self { opens, closes }
    }
}

impl From<&RebootGrant> for GrantItem {
    fn from(grant: &RebootGrant) -> Self {
        Self { config: grant.config.clone(), since: grant.since, holds_slot: grant.holds_slot() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_is_shorter_than_the_last_disruption_is_warned_of() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let warned = |took| {
            let window = Some(WindowItem { opens: time(0), closes: time(1800) });
            let item = RebootPolicyItem { window, lock: None, grant: None, warnings: Vec::new() };
            item.warned_of_short_window(took).warnings.len()
        };
        assert_eq!([None, Some(1800), Some(1801)].map(warned), [0, 0, 1]);
    }
}
