//! Settings of time limits: `[limits]` in a fragment.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

/// Limits of waits and of work; absent settings have their defaults. The TOML has seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[allow(clippy::struct_field_names, reason = "the names of the keys")]
pub struct LimitSettings {
    fetch_timeout: Option<NonZeroU32>,
    lock_timeout: Option<u32>,
    job_timeout: Option<JobSeconds>,
}

/// Seconds of a job's limit. A shorter one would end each job before it could correct the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
struct JobSeconds(u32);

impl JobSeconds {
    const LEAST: u32 = 600;
}

impl TryFrom<u32> for JobSeconds {
    type Error = String;

    fn try_from(seconds: u32) -> Result<Self, Self::Error> {
        let is_long = seconds >= Self::LEAST;
        is_long.then_some(Self(seconds)).ok_or_else(|| format!("expected {} seconds or more", Self::LEAST))
    }
}

impl LimitSettings {
    /// Longest time of one job of the daemon, unless a fragment sets another; a fetch that stalls ends much earlier.
    const JOB_TIMEOUT: Duration = Duration::from_secs(7200);

    /// Seconds after which a fetch ends that receives next to nothing.
    #[must_use]
    pub fn fetch_timeout(&self) -> Option<NonZeroU32> {
        self.fetch_timeout
    }

    /// Longest wait for another program that changes the OS.
    #[must_use]
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Longest time of one job of the daemon.
    #[must_use]
    pub fn job_timeout(&self) -> Duration {
        self.job_timeout.map_or(Self::JOB_TIMEOUT, |JobSeconds(seconds)| Duration::from_secs(seconds.into()))
    }

    pub(crate) fn overlay(self, settings: &mut Self) {
        settings.fetch_timeout = self.fetch_timeout.or(settings.fetch_timeout);
        settings.lock_timeout = self.lock_timeout.or(settings.lock_timeout);
        settings.job_timeout = self.job_timeout.or(settings.job_timeout);
    }
}
