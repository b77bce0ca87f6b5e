//! Settings of the boot check: `[boot-check]` in a fragment.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use serde::Deserialize;

use crate::core::enablement::UnitName;

/// Directories of health check programs. A program in a later directory replaces one of the same name in an
/// earlier.
pub const CHECK_DIRECTORIES: [&str; 2] = ["/usr/lib/flameholder/health.d", "/etc/flameholder/health.d"];

/// greenboot's directories of health checks, run if greenboot itself is not installed.
pub const GREENBOOT_DIRECTORIES: [&str; 2] =
    ["/usr/lib/greenboot/check/required.d", "/etc/greenboot/check/required.d"];

/// Units of the workload by default: those of a Kubernetes node.
const WORKLOAD: [&str; 3] = ["kubelet-dependencies.target", "kubelet.service", "crio.service"];

/// The choice whether a generation that fails its boot check is rolled back automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RollbackPolicy {
    /// Roll back, except on a control plane node.
    #[default]
    Auto,
    /// Roll back on every host that has a rollback deployment.
    Always,
    /// Never roll back; report the failure.
    Never,
}

/// The conditions and time limits under which a generation passes its boot check and is confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthPolicy {
    /// Time until the check must have passed, counted from the start of the kernel.
    pub timeout: Duration,
    /// Time for which all conditions must hold without interruption.
    pub steady: Duration,
    /// Number of boots that may end before the check has passed or failed.
    pub boots: usize,
    /// Automatic rollback after a failed check.
    pub rollback: RollbackPolicy,
    /// Units that must be active.
    pub required_units: Vec<UnitName>,
    /// Units that start only after the activation; on an unconfirmed generation only if that succeeded.
    pub workload: Vec<UnitName>,
    /// Time limit of one health check program.
    pub check_timeout: Duration,
    /// The kubelet's healthz port on loopback; 0 disables this check.
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
            workload: WORKLOAD
                .map(|unit| UnitName::parse(unit).expect("a constant unit name is one"))
                .to_vec(),
            check_timeout: Duration::from_secs(60),
            kubelet_port: 10248,
        }
    }
}

/// The TOML of `[boot-check]`; absent settings do not change the policy. Times are in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct BootCheckFragment {
    timeout: Option<NonZeroU32>,
    steady: Option<u32>,
    boots: Option<NonZeroU16>,
    rollback: Option<RollbackPolicy>,
    required_units: Option<Vec<UnitName>>,
    workload: Option<Vec<UnitName>>,
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
        if let Some(units) = self.workload {
            policy.workload = units;
        }
        policy.check_timeout =
            self.check_timeout.map_or(policy.check_timeout, |number| seconds(number.get()));
        policy.kubelet_port = self.kubelet_port.unwrap_or(policy.kubelet_port);
    }
}
