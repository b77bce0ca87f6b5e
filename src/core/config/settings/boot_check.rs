//! The part of a fragment that is about health.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use serde::Deserialize;

use crate::core::enablement::UnitName;

/// Where programs lie that check the host's health. One in a later directory replaces one of the same name in an
/// earlier.
pub const CHECK_DIRECTORIES: [&str; 2] = ["/usr/lib/flameholder/health.d", "/etc/flameholder/health.d"];

/// greenboot's, which are run where greenboot itself is not installed.
pub const GREENBOOT_DIRECTORIES: [&str; 2] =
    ["/usr/lib/greenboot/check/required.d", "/etc/greenboot/check/required.d"];

/// Whether a generation that is not healthy is left by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RollbackPolicy {
    /// Yes, but not on a control plane.
    #[default]
    Auto,
    /// Wherever there is something to go back to.
    Always,
    /// Never.
    Never,
}

/// What a generation has to show, and how long it has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthPolicy {
    /// How long it may take, from the start of the kernel.
    pub timeout: Duration,
    /// For how long everything has to be well without a break.
    pub steady: Duration,
    /// How many boots it may take, where each ended before that.
    pub boots: usize,
    /// What becomes of one that is not healthy then.
    pub rollback: RollbackPolicy,
    /// Units that have to be active.
    pub required_units: Vec<UnitName>,
    /// How long a program that checks may run.
    pub check_timeout: Duration,
    /// The port on loopback where the kubelet says how it is; 0 where it is not asked.
    pub kubelet_port: u16,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(600),
            steady: Duration::from_secs(30),
            boots: 3,
            rollback: RollbackPolicy::default(),
            required_units: Vec::new(),
            check_timeout: Duration::from_secs(60),
            kubelet_port: 10248,
        }
    }
}

/// What it does not mention, it does not change. Times are in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BootCheckFragment {
    timeout: Option<NonZeroU32>,
    steady: Option<u32>,
    boots: Option<NonZeroU16>,
    rollback: Option<RollbackPolicy>,
    required_units: Option<Vec<UnitName>>,
    check_timeout: Option<NonZeroU32>,
    kubelet_port: Option<u16>,
}

impl BootCheckFragment {
    pub(crate) fn overlay(self, policy: &mut HealthPolicy) {
        let seconds = |number: u32| Duration::from_secs(number.into());
        policy.timeout = self.timeout.map_or(policy.timeout, |number| seconds(number.get()));
        policy.steady = self.steady.map_or(policy.steady, seconds);
        policy.boots = self.boots.map_or(policy.boots, |number| number.get().into());
        policy.rollback = self.rollback.unwrap_or(policy.rollback);
        if let Some(units) = self.required_units {
            policy.required_units = units;
        }
        policy.check_timeout =
            self.check_timeout.map_or(policy.check_timeout, |number| seconds(number.get()));
        policy.kubelet_port = self.kubelet_port.unwrap_or(policy.kubelet_port);
    }
}
