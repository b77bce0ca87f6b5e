//! The document of `status -o json` (`docs/schema/status.json`).

use serde::Serialize;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::HealthReport;
use crate::core::state::journal::TransactionState;
use crate::core::state::pending::{PendingGeneration, UpdateFailure};
use crate::core::state::record::GenerationRecord;

/// Version of this document.
const SCHEMA: u32 = 1;

/// The whole document.
#[derive(Debug, Serialize)]
pub struct StatusDocument {
    /// Version of the document.
    pub schema: u32,
    /// The generation of a plain tree.
    pub generation: Option<GenerationItem>,
    /// The deployments of a sysroot, in boot order.
    pub deployments: Vec<DeploymentItem>,
    /// A change that is not settled.
    pub transaction: Option<TransactionItem>,
    /// The generation that is to boot.
    pub pending: Option<PendingItem>,
    /// The target that is not gone to again by itself.
    pub held: Option<BlockedTarget>,
    /// How healthy what runs is.
    pub health: Option<HealthReport>,
    /// Where the daemon stands.
    pub daemon: Option<DaemonReport>,
}

/// The generation that is to boot: staged, and armed once the next reboot switches to it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingItem {
    /// Its name.
    pub generation: String,
    /// Name of its configuration.
    pub config: String,
    /// The commit of its deployment.
    pub commit: String,
    /// Whether the next reboot of this boot switches to it.
    pub armed: bool,
    /// How many transactions of rpm-ostreed it took to stage it; 0 where libostree did it alone.
    pub rpm_ostree_transactions: u32,
    /// What went wrong with the last attempt.
    pub failure: Option<UpdateFailure>,
}

impl PendingItem {
    /// Of what is pending, in the boot `boot_id`.
    #[must_use]
    pub fn of(pending: &PendingGeneration, boot_id: &str) -> Self {
        Self {
            generation: pending.generation().to_owned(),
            config: pending.intent.record.config.clone(),
            commit: pending.intent.deployment.commit.clone(),
            armed: pending.armed_in.as_deref() == Some(boot_id),
            rpm_ostree_transactions: pending.intent.transactions,
            failure: pending.failure.clone(),
        }
    }
}

/// A change that is not settled: under way where somebody holds the lock, else interrupted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionItem {
    /// The generation before it.
    pub current: Option<String>,
    /// The generation that it makes.
    pub target: Option<String>,
    /// How far it came.
    #[serde(flatten)]
    pub reached: TransactionState,
    /// Whether somebody is at work on it.
    pub under_way: bool,
}

/// One generation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationItem {
    /// Its name.
    pub generation: String,
    /// Name of its configuration.
    pub config: String,
    /// Digest of its configuration.
    pub config_hash: String,
    /// Whether its record names the deployment that it was found in.
    pub belongs: bool,
    /// What it lacks of its configuration.
    pub left_out: Vec<String>,
}

/// One deployment. `next` is whether it boots next.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentItem {
    /// Whether it boots next.
    pub next: bool,
    /// Whether it runs.
    pub booted: bool,
    /// Whether it waits to be finalized.
    pub staged: bool,
    /// Whether an administrator keeps it.
    pub pinned: bool,
    /// OSTree's stateroot.
    pub stateroot: String,
    /// The commit.
    pub commit: String,
    /// The deploy serial.
    pub serial: u32,
    /// The version that its image says it is.
    pub version: Option<String>,
    /// The image that it came from.
    pub image: Option<String>,
    /// Digest of that image's manifest.
    pub manifest_digest: Option<String>,
    /// The arguments of its boot entry.
    pub kernel_arguments: Vec<String>,
    /// The generation found in it.
    pub generation: Option<GenerationItem>,
}

impl StatusDocument {
    /// Of a plain tree.
    #[must_use]
    pub fn of_tree(record: Option<&GenerationRecord>) -> Self {
        let generation = record.map(|record| GenerationItem::of(record, true));
        Self {
            schema: SCHEMA,
            generation,
            deployments: Vec::new(),
            transaction: None,
            pending: None,
            held: None,
            health: None,
            daemon: None,
        }
    }

    /// Of a sysroot.
    #[must_use]
    pub fn of_sysroot(deployments: Vec<DeploymentItem>) -> Self {
        Self { deployments, ..Self::of_tree(None) }
    }
}

impl GenerationItem {
    /// Of a record; `belongs` says whether it names the place that it was found in.
    #[must_use]
    pub fn of(record: &GenerationRecord, belongs: bool) -> Self {
        Self {
            generation: record.generation.clone(),
            config: record.config.clone(),
            config_hash: record.config_hash.clone(),
            belongs,
            left_out: record.left_out.clone(),
        }
    }
}
