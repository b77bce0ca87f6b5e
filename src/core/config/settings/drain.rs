//! Settings of the drain by the daemon itself: `[drain]` in a fragment.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

/// Choice what happens to pods that lose something by an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvictionChoice {
    Evict,
    /// Wait until an operator has removed the pod.
    Wait,
}

/// The drain; absent settings have their defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainSettings {
    enabled: Option<bool>,
    empty_dir: Option<EvictionChoice>,
    bare_pods: Option<EvictionChoice>,
    timeout: Option<Duration>,
}

impl DrainSettings {
    /// Time after which a drain is given up, unless a fragment sets another.
    const TIMEOUT: Duration = Duration::from_secs(3600);

    /// Return true if the daemon drains the host's Node.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(false)
    }

    /// Treatment of pods with a volume of the kind `emptyDir`, whose contents are lost.
    #[must_use]
    pub fn empty_dir(&self) -> EvictionChoice {
        self.empty_dir.unwrap_or(EvictionChoice::Evict)
    }

    /// Treatment of pods without a controller, which are not created again.
    #[must_use]
    pub fn bare_pods(&self) -> EvictionChoice {
        self.bare_pods.unwrap_or(EvictionChoice::Wait)
    }

    /// Time after which a drain is given up, and the Node uncordoned.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::TIMEOUT)
    }
}

/// The TOML of `[drain]`. Times are in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DrainFragment {
    enabled: Option<bool>,
    empty_dir: Option<EvictionChoice>,
    bare_pods: Option<EvictionChoice>,
    timeout: Option<NonZeroU32>,
}

impl DrainFragment {
    pub(crate) fn overlay(self, settings: &mut DrainSettings) {
        let timeout = self.timeout.map(|seconds| Duration::from_secs(seconds.get().into()));
        *settings = DrainSettings {
            enabled: self.enabled.or(settings.enabled),
            empty_dir: self.empty_dir.or(settings.empty_dir),
            bare_pods: self.bare_pods.or(settings.bare_pods),
            timeout: timeout.or(settings.timeout),
        };
    }
}
