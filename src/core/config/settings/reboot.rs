//! Settings of requested reboots: `[reboot]` in a fragment.

use std::time::Duration;

use serde::Deserialize;

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RebootSettings {
    pub inhibitors: InhibitorChoice,
    inhibitor_timeout: Option<Duration>,
}

impl RebootSettings {
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
}

impl RebootFragment {
    pub(crate) fn overlay(self, settings: &mut RebootSettings) {
        settings.inhibitors = self.inhibitors.unwrap_or(settings.inhibitors);
        let timeout = self.inhibitor_timeout.map(|seconds| Duration::from_secs(seconds.into()));
        settings.inhibitor_timeout = timeout.or(settings.inhibitor_timeout);
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
