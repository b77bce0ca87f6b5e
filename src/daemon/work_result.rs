//! Result of a job: an event for the state machine, and facts for the daemon's watches and metrics.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::config::settings::DriftPolicy;
use crate::core::daemon::lifecycle::DaemonEvent;
use crate::core::state::boot_check::CheckResult;
use crate::daemon::generation_figures::GenerationFigures;
use crate::transaction::plan::drift::DriftReport;

/// Result of a job, written to standard output as one JSON document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkResult {
    pub(super) event: DaemonEvent,
    pub(super) findings: JobFindings,
}

/// Findings of a job for the daemon's watches and metrics.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct JobFindings {
    /// Facts about the host; only `WorkJob::Verify` reports them.
    pub(super) facts: Option<HostFacts>,
    /// Results of the boot check so far; only `WorkJob::Observe` reports them.
    pub(super) boot_check: Vec<CheckResult>,
    /// Time until the running boot check times out, in seconds; only `WorkJob::Observe` reports it.
    pub(super) boot_check_left: Option<u64>,
    /// Generation that is staged; only `WorkJob::Prepare` reports it.
    pub(super) staged: Option<GenerationFigures>,
    /// Bytes of OS images that were fetched.
    pub(super) image_bytes: u64,
    /// True if the job failed because the operating system could not be fetched, staged or unlocked.
    pub(super) is_os_failure: bool,
}

impl WorkResult {
    /// Result with nothing but an event.
    pub(super) fn of(event: DaemonEvent) -> Self {
        Self { event, findings: JobFindings::default() }
    }
}

/// Facts about the verified host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostFacts {
    /// Managed paths.
    pub(super) managed: BTreeSet<PathBuf>,
    /// Number of layered packages and overrides that no config asked for.
    pub(super) unsupported_packages: usize,
    /// Generations of the deployments whose record is their own.
    pub(super) generations: Vec<GenerationFigures>,
    /// Result of the comparison; `None` if it failed.
    pub(super) comparison: Option<ComparisonFigures>,
}

/// Result of comparing the host with its record, for the metrics.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ComparisonFigures {
    /// Number of drifted paths by their policy.
    pub(super) drift_paths: Vec<(DriftPolicy, usize)>,
    /// Number of paths that were repaired.
    pub(super) repaired: usize,
}

impl ComparisonFigures {
    /// Figures of a comparison, before which `repaired` paths were repaired.
    pub(super) fn of(report: &DriftReport, repaired: usize) -> Self {
        let policies = [DriftPolicy::Report, DriftPolicy::Repair, DriftPolicy::Ignore];
        let number = |policy| report.findings.iter().filter(|found| found.policy == policy).count();
        Self { drift_paths: policies.map(|policy| (policy, number(policy))).into(), repaired }
    }
}
