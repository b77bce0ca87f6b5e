//! Boot check: health checks after booting a new generation, and the rule for automatic rollback. All checks
//! are local to the host: an API server or registry out of reach is never a reason to roll back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pending::PendingGeneration;
use crate::core::config::settings::boot_check::{HealthPolicy, RollbackPolicy};
use crate::core::values::identifiers::GenerationId;

/// Static pod of etcd, whose presence marks a control-plane node.
pub const ETCD_POD: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";

/// Prefix of rendered configs of the control plane's pool, by MCO's naming.
const CONTROL_PLANE_CONFIG: &str = "rendered-master-";

/// Reason why an unhealthy generation is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RollbackDisabled {
    #[error("`boot-check.rollback` is `never`; go back with `flameholder rollback`")]
    BySetting,
    /// Automatic rollback is off on control planes, unless the settings turn it on.
    #[error(
        "this is a control plane, where `boot-check.rollback` is `never` unless it is set to `always`; go back with `flameholder rollback`"
    )]
    ControlPlane,
    /// The deployment before it was never configured.
    #[error("it completes the first boot, and the deployment before it was never configured")]
    FirstBoot,
    /// The deployment that the generation was staged on no longer exists.
    #[error(
        "the deployment before it no longer exists; apply a configuration that works, or choose another entry in the boot menu"
    )]
    DeploymentGone,
}

impl HealthPolicy {
    /// Check if `pending` may be rolled back automatically; the error is the reason against it.
    pub fn may_roll_back(&self, pending: &PendingGeneration, has_etcd: bool) -> Result<(), RollbackDisabled> {
        let is_control_plane =
            has_etcd || pending.staged.record.config.as_str().starts_with(CONTROL_PLANE_CONFIG);
        self.allows_rollback(pending.staged.completes_first_boot, is_control_plane)
    }

    /// Check if a generation may be rolled back automatically; the error is the reason against it.
    pub fn allows_rollback(
        &self,
        completes_first_boot: bool,
        is_control_plane: bool,
    ) -> Result<(), RollbackDisabled> {
        match self.rollback {
            _ if completes_first_boot => Err(RollbackDisabled::FirstBoot),
            RollbackPolicy::Never => Err(RollbackDisabled::BySetting),
            RollbackPolicy::Auto if is_control_plane => Err(RollbackDisabled::ControlPlane),
            RollbackPolicy::Auto | RollbackPolicy::Always => Ok(()),
        }
    }

    /// Return the number of boots after which `pending` is rolled back; `None` for no limit.
    #[must_use]
    pub fn max_boots(&self, pending: Option<&PendingGeneration>, has_etcd: bool) -> Option<usize> {
        pending.is_some_and(|pending| self.may_roll_back(pending, has_etcd).is_ok()).then_some(self.boots)
    }
}

/// Result of one health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// Check that ran: `boot`, `unit crio.service`, `network`, `kubelet`, `check 10-disk.sh`, `record`.
    pub check: String,
    pub ok: bool,
    /// Finding, in one line.
    pub detail: String,
    /// End of the output of a check program that failed. It can hold secrets, so it is in files that only root reads: the
    /// status file, and the blocked target.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(skip)]
    pub output: String,
}

impl CheckResult {
    /// Return a passed check.
    #[must_use]
    pub fn passed(check: &str, detail: impl Into<String>) -> Self {
        Self { check: check.to_owned(), ok: true, detail: detail.into(), output: String::new() }
    }

    /// Return a check that failed, or has not passed yet.
    #[must_use]
    pub fn failed(check: &str, detail: impl Into<String>) -> Self {
        Self { check: check.to_owned(), ok: false, detail: detail.into(), output: String::new() }
    }
}

/// Join all failed checks into one line; `None` where all passed.
#[must_use]
pub fn failed_checks(findings: &[CheckResult]) -> Option<String> {
    let ill: Vec<String> = findings
        .iter()
        .filter(|finding| !finding.ok)
        .map(|finding| format!("{}: {}", finding.check, finding.detail))
        .collect();
    (!ill.is_empty()).then(|| ill.join("; "))
}

/// Progress of the boot check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthPhase {
    /// The boot check is still running.
    Checking,
    /// All checks passed: the generation is confirmed.
    Healthy,
    /// A check still failed at the deadline.
    Unhealthy,
}

/// Report of the boot check, as `flameholder status` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// Generation checked; `None` where the booted deployment is foreign.
    pub generation: Option<GenerationId>,
    /// Progress of the boot check.
    pub phase: HealthPhase,
    /// Latest result of each check.
    pub findings: Vec<CheckResult>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::state::pending::tests::intent;

    fn pending(config: &str, completes_first_boot: bool) -> PendingGeneration {
        let mut intent = intent("b");
        intent.record.config = config.into();
        intent.completes_first_boot = completes_first_boot;
        PendingGeneration::new(intent)
    }

    #[test]
    fn automatic_rollback_follows_policy_and_node_role() {
        let rows = [
            (RollbackPolicy::Auto, "rendered-worker-1", false, false, Ok(())),
            (RollbackPolicy::Auto, "rendered-master-1", false, false, Err(RollbackDisabled::ControlPlane)),
            (RollbackPolicy::Auto, "single-node", false, true, Err(RollbackDisabled::ControlPlane)),
            (RollbackPolicy::Always, "rendered-master-1", false, true, Ok(())),
            (RollbackPolicy::Never, "rendered-worker-1", false, false, Err(RollbackDisabled::BySetting)),
            (RollbackPolicy::Always, "rendered-worker-1", true, false, Err(RollbackDisabled::FirstBoot)),
        ];
        for (rollback, config, is_first, has_etcd, expected) in rows {
            let policy = HealthPolicy { rollback, ..HealthPolicy::default() };
            let pending = pending(config, is_first);
            assert_eq!(policy.may_roll_back(&pending, has_etcd), expected, "{rollback:?} {config}");
            let boots = expected.is_ok().then_some(3);
            assert_eq!(policy.max_boots(Some(&pending), has_etcd), boots, "{rollback:?} {config}");
        }
    }

    #[test]
    fn every_failed_check_is_listed() {
        let well = CheckResult::passed("boot", "running");
        assert_eq!(failed_checks(std::slice::from_ref(&well)), None);
        let ill = [
            CheckResult::failed("network", "no interface is up"),
            well,
            CheckResult::failed("kubelet", "silent"),
        ];
        assert_eq!(failed_checks(&ill).unwrap(), "network: no interface is up; kubelet: silent");
    }
}
