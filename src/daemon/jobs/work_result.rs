//! Result of a job: an event for the state machine, and facts for the daemon's watches and metrics.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::core::config::settings::DriftPolicy;
use crate::core::daemon::lifecycle::DaemonEvent;
use crate::core::state::boot_check::CheckResult;
use crate::core::values::names::ManagedPath;
use crate::daemon::jobs::generation_figures::GenerationFigures;
use crate::transaction::plan::drift::DriftReport;
use crate::transaction::plan::host_origin::HostOrigin;

/// Result of a job, or a report before it, written to standard output as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::daemon) struct WorkResult {
    pub(in crate::daemon) event: DaemonEvent,
    pub(in crate::daemon) findings: JobFindings,
    /// True for a report of a job that goes on.
    #[serde(default)]
    pub(in crate::daemon) is_progress: bool,
}

/// Findings of a job for the daemon's watches and metrics.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::daemon) struct JobFindings {
    /// Facts about the host; only `WorkJob::Verify` reports them.
    pub(in crate::daemon) facts: Option<HostFacts>,
    /// Results of the boot check so far; only `WorkJob::Observe` reports them.
    pub(in crate::daemon) boot_check: Vec<CheckResult>,
    /// Time until the running boot check times out, in seconds; only `WorkJob::Observe` reports it.
    pub(in crate::daemon) boot_check_left: Option<u64>,
    /// True if the blocked target was released; `WorkJob::Observe` and `WorkJob::Verify` report it.
    pub(in crate::daemon) has_released_block: bool,
    /// Generation that is staged; only `WorkJob::Prepare` reports it.
    pub(in crate::daemon) staged: Option<GenerationFigures>,
    /// Bytes of OS images that were fetched.
    pub(in crate::daemon) image_bytes: u64,
    /// Result of comparing the host with its record; `None` without a comparison, or if it failed.
    pub(in crate::daemon) comparison: Option<ComparisonFigures>,
    /// True if the job failed because the operating system could not be fetched, staged or unlocked.
    pub(in crate::daemon) is_os_failure: bool,
}

impl WorkResult {
    /// Result with nothing but an event.
    pub(in crate::daemon) fn of(event: DaemonEvent) -> Self {
        Self { event, findings: JobFindings::default(), is_progress: false }
    }

    /// Report of a job that goes on.
    pub(in crate::daemon) fn of_progress(event: DaemonEvent) -> Self {
        Self { is_progress: true, ..Self::of(event) }
    }
}

/// Facts about the verified host.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::daemon) struct HostFacts {
    /// Time before the first of the managed paths was read.
    pub(in crate::daemon) began: SystemTime,
    /// Managed paths.
    pub(in crate::daemon) managed: BTreeSet<PathBuf>,
    /// Number of layered packages and overrides that no config asked for.
    pub(in crate::daemon) unsupported_packages: usize,
    /// Generations of the deployments whose record is their own.
    pub(in crate::daemon) generations: Vec<GenerationFigures>,
    /// Origin of the host.
    pub(in crate::daemon) origin: HostOrigin,
    /// Last update of this boot, in one line.
    pub(in crate::daemon) update: Option<String>,
}

/// Result of comparing the host with its record, for the metrics.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::daemon) struct ComparisonFigures {
    /// Number of drifted paths by their policy.
    pub(in crate::daemon) drift_paths: Vec<(DriftPolicy, usize)>,
    /// Paths that were repaired, also those that changed again at once.
    pub(in crate::daemon) repaired: BTreeSet<ManagedPath>,
}

impl ComparisonFigures {
    /// Figures of a comparison.
    pub(in crate::daemon) fn of(report: &DriftReport) -> Self {
        let policies = [DriftPolicy::Report, DriftPolicy::Repair, DriftPolicy::Merge, DriftPolicy::Ignore];
        let number = |policy| {
            let found = report.findings.iter().filter(|found| found.policy == policy);
            found.map(|found| &found.drift.path).collect::<BTreeSet<_>>().len()
        };
        let drift_paths = policies.map(|policy| (policy, number(policy))).into();
        Self { drift_paths, repaired: report.restored.clone() }
    }
}
