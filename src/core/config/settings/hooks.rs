//! Settings of the hooks: `[hooks]` in a fragment.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::boot_check::CHECK_DIRECTORIES;

/// Directories of the hooks that run before the host is disrupted. A program in a later directory replaces one of the same
/// name in an earlier.
pub const BEFORE_DRAIN: [&str; 2] =
    ["/usr/lib/flameholder/before-drain.d", "/etc/flameholder/before-drain.d"];

/// Directories of the hooks that run once the update is confirmed.
pub const AFTER_CONFIRMATION: [&str; 2] =
    ["/usr/lib/flameholder/after-confirmation.d", "/etc/flameholder/after-confirmation.d"];

/// Directories of the hooks that are told what the daemon does.
pub const NOTIFY: [&str; 2] = ["/usr/lib/flameholder/notify.d", "/etc/flameholder/notify.d"];

/// Directories of all programs of administrators that the agent runs: health checks and hooks.
pub const PROGRAM_DIRECTORIES: [&str; 8] = [
    CHECK_DIRECTORIES[0],
    CHECK_DIRECTORIES[1],
    BEFORE_DRAIN[0],
    BEFORE_DRAIN[1],
    AFTER_CONFIRMATION[0],
    AFTER_CONFIRMATION[1],
    NOTIFY[0],
    NOTIFY[1],
];

/// The hooks; absent settings have their defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookSettings {
    timeout: Option<Duration>,
}

impl HookSettings {
    const TIMEOUT: Duration = Duration::from_secs(300);

    /// Time limit of one hook, unless a fragment sets another.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Self::TIMEOUT)
    }
}

/// The TOML of `[hooks]`. Times are in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct HookFragment {
    timeout: Option<NonZeroU32>,
}

impl HookFragment {
    pub(crate) fn overlay(self, settings: &mut HookSettings) {
        let timeout = self.timeout.map(|seconds| Duration::from_secs(seconds.get().into()));
        settings.timeout = timeout.or(settings.timeout);
    }
}
