//! Settings of requested reboots: `[reboot]` in a fragment.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::reboot_window::{RebootWindow, RebootWindows};

/// The choice what the daemon does with inhibitor locks that still block its reboot after the wait for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InhibitorChoice {
    /// Overrule them in a cluster, obey them elsewhere.
    #[default]
    Auto,
    Obey,
    Overrule,
}

/// The reboots that the daemon and `apply` request; absent settings have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebootSettings {
    pub inhibitors: InhibitorChoice,
    pub windows: RebootWindows,
    inhibitor_timeout: Option<Duration>,
    retry_interval: Option<Duration>,
}

impl RebootSettings {
    /// Mean time between two requests for a grant, unless a fragment sets another.
    const RETRY_INTERVAL: Duration = Duration::from_secs(60);

    /// Mean time between two requests for a grant.
    #[must_use]
    pub fn retry_interval(&self) -> Duration {
        self.retry_interval.unwrap_or(Self::RETRY_INTERVAL)
    }

    /// Longest wait for inhibitor locks, unless a fragment sets another.
    const INHIBITOR_TIMEOUT: Duration = Duration::from_secs(600);

    /// Longest wait for inhibitor locks, after which `apply` fails or they are overruled.
    #[must_use]
    pub fn inhibitor_timeout(&self) -> Duration {
        self.inhibitor_timeout.unwrap_or(Self::INHIBITOR_TIMEOUT)
    }

    /// Return the time until the daemon overrules locks that have blocked its reboot for `waited`; `None` if it never
    /// does. In a cluster the node is drained by then, and its pool waits for it.
    #[must_use]
    pub fn time_to_overrule(&self, waited: Duration, is_in_cluster: bool) -> Option<Duration> {
        let overrules = match self.inhibitors {
            InhibitorChoice::Auto => is_in_cluster,
            InhibitorChoice::Obey => false,
            InhibitorChoice::Overrule => true,
        };
        overrules.then(|| self.inhibitor_timeout().saturating_sub(waited))
    }
}

/// The TOML of `[reboot]`. Times are in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RebootFragment {
    inhibitors: Option<InhibitorChoice>,
    inhibitor_timeout: Option<u32>,
    retry_interval: Option<NonZeroU32>,
    time_zone: Option<String>,
    /// All windows: those of earlier fragments do not count any more.
    window: Option<Vec<RebootWindow>>,
}

impl RebootFragment {
    pub(crate) fn overlay(self, settings: &mut RebootSettings) {
        settings.inhibitors = self.inhibitors.unwrap_or(settings.inhibitors);
        let timeout = self.inhibitor_timeout.map(|seconds| Duration::from_secs(seconds.into()));
        settings.inhibitor_timeout = timeout.or(settings.inhibitor_timeout);
        let interval = self.retry_interval.map(|seconds| Duration::from_secs(seconds.get().into()));
        settings.retry_interval = interval.or(settings.retry_interval);
        settings.windows.time_zone = self.time_zone.or(settings.windows.time_zone.take());
        if let Some(windows) = self.window {
            settings.windows.list = windows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_overruled_after_the_wait_where_it_is_chosen_or_in_a_cluster() {
        let seconds = Duration::from_secs;
        for (inhibitors, is_in_cluster, overrules) in [
            (InhibitorChoice::Auto, true, true),
            (InhibitorChoice::Auto, false, false),
            (InhibitorChoice::Obey, true, false),
            (InhibitorChoice::Overrule, false, true),
        ] {
            let settings = RebootSettings { inhibitors, ..RebootSettings::default() };
            for (waited, left) in [(0, 600), (599, 1), (600, 0), (1000, 0)] {
                let expected = overrules.then(|| seconds(left));
                assert_eq!(
                    settings.time_to_overrule(seconds(waited), is_in_cluster),
                    expected,
                    "{inhibitors:?}"
                );
            }
        }
    }
}
