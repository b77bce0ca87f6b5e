//! Result of a job: an event for the state machine, and facts for the daemon's watches and metrics.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::config::settings::DriftPolicy;
use crate::core::daemon::lifecycle::DaemonEvent;
use crate::core::state::boot_check::CheckResult;
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::transaction::plan::drift::DriftReport;

/// Result of a job, written to standard output as one JSON document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkResult {
    pub(super) event: DaemonEvent,
    /// Facts for the daemon's watches and metrics; only `WorkJob::Verify` reports them.
    pub(super) facts: Option<HostFacts>,
    /// Results of the boot check so far; only `WorkJob::Observe` reports them.
    pub(super) boot_check: Vec<CheckResult>,
    /// True if the job failed because the operating system could not be fetched, staged or unlocked.
    pub(super) is_os_failure: bool,
}

impl WorkResult {
    /// Result with nothing but an event.
    pub(super) fn of(event: DaemonEvent) -> Self {
        Self { event, facts: None, boot_check: Vec::new(), is_os_failure: false }
    }
}

/// Facts about the verified host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostFacts {
    /// Managed paths.
    pub(super) managed: BTreeSet<PathBuf>,
    /// Number of layered packages and overrides that no config asked for.
    pub(super) unsupported_packages: usize,
    /// Result of the comparison; `None` if it failed.
    pub(super) comparison: Option<ComparisonFigures>,
}

/// Result of comparing the host with its record, for the metrics.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ComparisonFigures {
    pub(super) generation: GenerationId,
    pub(super) config: ConfigName,
    /// Digest of the manifest of the booted deployment's image.
    pub(super) image_digest: Option<String>,
    /// Number of drifted paths by their policy.
    pub(super) drift_paths: Vec<(DriftPolicy, usize)>,
    /// Number of paths that were repaired.
    pub(super) repaired: usize,
}

impl ComparisonFigures {
    /// Figures of a comparison, before which `repaired` paths were repaired.
    pub(super) fn of(report: &DriftReport, repaired: usize) -> Self {
        let GenerationRecord { generation, config, deployment, .. } = &report.record;
        let policies = [DriftPolicy::Report, DriftPolicy::Repair, DriftPolicy::Ignore];
        let number = |policy| report.findings.iter().filter(|found| found.policy == policy).count();
        Self {
            generation: generation.clone(),
            config: config.clone(),
            image_digest: deployment.as_ref().and_then(|deployment| deployment.image_digest.clone()),
            drift_paths: policies.map(|policy| (policy, number(policy))).into(),
            repaired,
        }
    }
}
