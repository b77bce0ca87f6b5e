//! Document of `status -o json` (`docs/schema/status.json`).

use serde::Serialize;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::HealthReport;
use crate::core::state::journal::TransactionState;
use crate::core::state::pending::{PendingGeneration, UpdateFailure};
use crate::core::state::record::GenerationRecord;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// State of a tree, a sysroot or the running host.
#[derive(Debug, Serialize)]
pub struct StatusDocument {
    pub schema: u32,
    /// Generation of a plain tree; `None` for a sysroot, whose deployments have their own.
    pub generation: Option<GenerationItem>,
    /// Deployments of a sysroot, in boot order.
    pub deployments: Vec<DeploymentItem>,
    /// Change whose journal is open: under way or interrupted.
    pub transaction: Option<TransactionItem>,
    /// Generation that is staged for the next boot or not confirmed yet.
    pub pending: Option<PendingItem>,
    /// Config that failed its boot check or was rolled back from, and is not retried automatically.
    pub blocked: Option<BlockedTarget>,
    /// Last report of the boot check.
    pub boot_check: Option<HealthReport>,
    pub daemon: Option<DaemonReport>,
}

/// Pending generation: staged, or booted and unconfirmed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingItem {
    pub generation: String,
    pub config: String,
    /// Commit of its deployment.
    pub commit: String,
    /// True if the next reboot switches to it.
    pub unlocked: bool,
    /// rpm-ostreed transactions that staged it; 0 if libostree alone did.
    pub rpm_ostree_transactions: u32,
    /// Failure of the last attempt to finalize or boot it.
    pub failure: Option<UpdateFailure>,
}

impl PendingItem {
    /// Describe a pending generation as seen in the boot `boot_id`.
    #[must_use]
    pub fn of(pending: &PendingGeneration, boot_id: &str) -> Self {
        Self {
            generation: pending.generation().to_owned(),
            config: pending.staged.record.config.clone(),
            commit: pending.staged.deployment.commit.clone(),
            unlocked: pending.unlocked_in.as_deref() == Some(boot_id),
            rpm_ostree_transactions: pending.staged.transactions,
            failure: pending.failure.clone(),
        }
    }
}

/// Change whose journal is open: under way while another process holds the lock, else interrupted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionItem {
    /// Generation before the change.
    pub current: Option<String>,
    /// Generation that the change creates.
    pub target: Option<String>,
    /// Last state that the journal records.
    #[serde(flatten)]
    pub reached: TransactionState,
    /// True if another process holds the lock.
    pub in_progress: bool,
}

/// Generation as its record describes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationItem {
    pub generation: String,
    pub config: String,
    /// Canonical digest of the config.
    pub config_hash: String,
    /// True if the record names the deployment that holds it; false for a foreign deployment, whose `/etc`
    /// was merged from a generation.
    pub record_matches: bool,
    /// Parts of the config that were not applied, each with the reason.
    pub unsupported: Vec<String>,
    /// Files that activation puts in place, each with the reason.
    pub deferred: Vec<String>,
}

/// Deployment of a sysroot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentItem {
    /// True for the first deployment in boot order.
    pub next: bool,
    pub booted: bool,
    /// True if the deployment is finalized at shutdown.
    pub staged: bool,
    /// True if `ostree admin pin` keeps the deployment.
    pub pinned: bool,
    pub stateroot: String,
    /// OSTree commit checksum, 64 hex digits.
    pub commit: String,
    /// Number that tells deployments of one commit apart.
    pub serial: u32,
    /// Version in the image's metadata.
    pub version: Option<String>,
    /// Container image of the origin; `None` for a plain OSTree commit.
    pub image: Option<String>,
    pub manifest_digest: Option<String>,
    /// Kernel arguments of the boot entry, without `ostree=`.
    pub kernel_arguments: Vec<String>,
    /// Generation whose record is in its `/etc`.
    pub generation: Option<GenerationItem>,
}

impl StatusDocument {
    /// Build the document of a plain tree.
    #[must_use]
    pub fn of_tree(record: Option<&GenerationRecord>) -> Self {
        let generation = record.map(|record| GenerationItem::of(record, true));
        Self {
            schema: SCHEMA,
            generation,
            deployments: Vec::new(),
            transaction: None,
            pending: None,
            blocked: None,
            boot_check: None,
            daemon: None,
        }
    }

    /// Build the document of a sysroot; the caller adds the state of a running host.
    #[must_use]
    pub fn of_sysroot(deployments: Vec<DeploymentItem>) -> Self {
        Self { deployments, ..Self::of_tree(None) }
    }
}

impl GenerationItem {
    /// Describe a record; `record_matches` is true if it names the deployment that holds it.
    #[must_use]
    pub fn of(record: &GenerationRecord, record_matches: bool) -> Self {
        Self {
            generation: record.generation.clone(),
            config: record.config.clone(),
            config_hash: record.config_hash.clone(),
            record_matches,
            unsupported: record.unsupported.clone(),
            deferred: record.deferred.clone(),
        }
    }
}
