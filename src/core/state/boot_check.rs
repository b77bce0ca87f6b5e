//! What a generation has to show after it booted, and what becomes of one that does not. All of it is about this host:
//! whether an API or a registry can be reached is never asked.

use serde::{Deserialize, Serialize};

use super::pending::PendingGeneration;
use crate::core::config::settings::boot_check::{HealthPolicy, RollbackPolicy};

/// Tells a node of a control plane.
pub const ETCD_POD: &str = "/etc/kubernetes/manifests/etcd-pod.yaml";

/// The pool whose nodes are a control plane's (the reference's naming of rendered configurations).
const CONTROL_PLANE_CONFIG: &str = "rendered-master-";

/// Why a generation is kept although it is not healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RollbackDisabled {
    /// The settings say so.
    #[error("`health.go-back` is `never`; go back with `flameholder rollback`")]
    BySetting,
    /// Nobody goes back there unasked.
    #[error(
        "this is a control plane, where `health.go-back` is `never` unless it is set to `always`; go back with `flameholder rollback`"
    )]
    ControlPlane,
    /// What it replaced was never fit for work.
    #[error("it completes the first boot, and what ran before was never configured")]
    FirstBoot,
}

impl HealthPolicy {
    /// Whether `pending` may be left by itself.
    pub fn may_go_back(&self, pending: &PendingGeneration, has_etcd: bool) -> Result<(), RollbackDisabled> {
        let is_control_plane = has_etcd || pending.intent.record.config.starts_with(CONTROL_PLANE_CONFIG);
        match self.go_back {
            _ if pending.intent.completes_first_boot => Err(RollbackDisabled::FirstBoot),
            RollbackPolicy::Never => Err(RollbackDisabled::BySetting),
            RollbackPolicy::Auto if is_control_plane => Err(RollbackDisabled::ControlPlane),
            RollbackPolicy::Auto | RollbackPolicy::Always => Ok(()),
        }
    }

    /// After how many boots `pending` is left; `None` where it may be tried for ever.
    #[must_use]
    pub fn most_boots(&self, pending: Option<&PendingGeneration>, has_etcd: bool) -> Option<usize> {
        pending.is_some_and(|pending| self.may_go_back(pending, has_etcd).is_ok()).then_some(self.boots)
    }
}

/// What was found of one thing that has to be well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// What was looked at: `boot`, `unit crio.service`, `network`, `kubelet`, `check 10-disk.sh`, `record`.
    pub check: String,
    /// Whether it is well.
    pub ok: bool,
    /// What was seen, in one line.
    pub detail: String,
}

impl CheckResult {
    /// It is well.
    #[must_use]
    pub fn well(check: &str, detail: impl Into<String>) -> Self {
        Self { check: check.to_owned(), ok: true, detail: detail.into() }
    }

    /// It is not, or not yet.
    #[must_use]
    pub fn ill(check: &str, detail: impl Into<String>) -> Self {
        Self { check: check.to_owned(), ok: false, detail: detail.into() }
    }
}

/// Everything that is not well, in one line; `None` where all is.
#[must_use]
pub fn complaint(findings: &[CheckResult]) -> Option<String> {
    let ill: Vec<String> = findings
        .iter()
        .filter(|finding| !finding.ok)
        .map(|finding| format!("{}: {}", finding.check, finding.detail))
        .collect();
    (!ill.is_empty()).then(|| ill.join("; "))
}

/// How far the judgement on what runs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthPhase {
    /// It is still looked at.
    Checking,
    /// All was well.
    Healthy,
    /// Something was not well when its time was over.
    Unhealthy,
}

/// What is said about the health of what runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// The generation; `None` where none of ours runs.
    pub generation: Option<String>,
    /// How far the judgement is.
    pub phase: HealthPhase,
    /// What was seen last.
    pub findings: Vec<CheckResult>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::state::pending::tests::intent;

    fn pending(config: &str, completes_first_boot: bool) -> PendingGeneration {
        let mut intent = intent("b");
        config.clone_into(&mut intent.record.config);
        intent.completes_first_boot = completes_first_boot;
        PendingGeneration::staged(intent)
    }

    #[test]
    fn who_goes_back_by_itself() {
        let rows = [
            (RollbackPolicy::Auto, "rendered-worker-1", false, false, Ok(())),
            (RollbackPolicy::Auto, "rendered-master-1", false, false, Err(RollbackDisabled::ControlPlane)),
            (RollbackPolicy::Auto, "single-node", false, true, Err(RollbackDisabled::ControlPlane)),
            (RollbackPolicy::Always, "rendered-master-1", false, true, Ok(())),
            (RollbackPolicy::Never, "rendered-worker-1", false, false, Err(RollbackDisabled::BySetting)),
            (RollbackPolicy::Always, "rendered-worker-1", true, false, Err(RollbackDisabled::FirstBoot)),
        ];
        for (go_back, config, is_first, has_etcd, expected) in rows {
            let policy = HealthPolicy { go_back, ..HealthPolicy::default() };
            let pending = pending(config, is_first);
            assert_eq!(policy.may_go_back(&pending, has_etcd), expected, "{go_back:?} {config}");
            let boots = expected.is_ok().then_some(3);
            assert_eq!(policy.most_boots(Some(&pending), has_etcd), boots, "{go_back:?} {config}");
        }
    }

    #[test]
    fn a_complaint_names_all_that_is_not_well() {
        let well = CheckResult::well("boot", "running");
        assert_eq!(complaint(std::slice::from_ref(&well)), None);
        let ill =
            [CheckResult::ill("network", "no interface is up"), well, CheckResult::ill("kubelet", "silent")];
        assert_eq!(complaint(&ill).unwrap(), "network: no interface is up; kubelet: silent");
    }
}
