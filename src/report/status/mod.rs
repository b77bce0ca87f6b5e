//! Document of `status -o json` (`docs/schema/status.json`).

mod condition;
mod deployment_item;
mod host_items;
mod pending_item;
mod transaction_item;

pub use condition::{ConditionItem, ConditionOutcome};
pub use deployment_item::{DeploymentItem, GenerationItem, mark_rollback};
pub use host_items::{AgentItem, ArgumentsItem, OriginItem, SpaceItem, UnreadableDocument};
pub use pending_item::{PendingItem, PendingState};
use schemars::JsonSchema;
use serde::Serialize;
pub use transaction_item::{JournalState, TransactionItem};

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::HealthReport;
use crate::core::state::record::GenerationRecord;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// State of a tree, a sysroot or the running host.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Condition of the running host; null elsewhere.
    pub condition: Option<ConditionItem>,
    /// Generation of a plain tree; null before the first change, and for a sysroot, whose deployments have
    /// their own.
    pub generation: Option<GenerationItem>,
    /// Deployments of a sysroot in boot order; empty for a plain tree.
    pub deployments: Vec<DeploymentItem>,
    /// Change whose journal is open, in progress or interrupted; null without one. In a sysroot: the one in
    /// the `/var` of the deployment that boots next.
    pub transaction: Option<TransactionItem>,
    /// Generation of the running host that is staged for the next boot, or booted and unconfirmed.
    pub pending: Option<PendingItem>,
    /// Config that failed its boot check on the running host, or that an operator rolled back from. It is not
    /// retried until `flameholder retry` or another desired config.
    pub blocked: Option<BlockedTarget>,
    /// Kernel arguments of the running host that take effect with the next full reboot, because a soft reboot kept the
    /// running kernel; null if the kernel has those of the boot entry.
    pub kernel_arguments_after_reboot: Option<ArgumentsItem>,
    /// Last report of the boot check of the running host in this boot.
    pub boot_check: Option<HealthReport>,
    /// Seconds until the boot check of an unconfirmed generation times out; null without one, and after that.
    pub boot_check_seconds_left: Option<u64>,
    /// Last report of the daemon in this boot; kept after the daemon ends.
    pub daemon: Option<DaemonReport>,
    /// True while the daemon runs.
    pub daemon_running: bool,
    /// Agent that made this document: the OS image's, or a copy beside the image.
    pub agent: AgentItem,
    /// Documents of the agent on the running host that it cannot read, and works without. They are kept for the release
    /// that wrote them.
    pub unreadable: Vec<UnreadableDocument>,
    /// Origin of the running host; null elsewhere.
    pub origin: Option<OriginItem>,
    /// Free space of the running host where updates need it; empty elsewhere.
    pub space: Vec<SpaceItem>,
}

impl StatusDocument {
    /// Build the document of a plain tree.
    #[must_use]
    pub fn of_tree(agent: AgentItem, record: Option<&GenerationRecord>) -> Self {
        let generation = record.map(|record| GenerationItem::of(record, true));
        Self {
            schema: SCHEMA,
            condition: None,
            generation,
            deployments: Vec::new(),
            transaction: None,
            pending: None,
            blocked: None,
            kernel_arguments_after_reboot: None,
            boot_check: None,
            boot_check_seconds_left: None,
            daemon: None,
            daemon_running: false,
            agent,
            unreadable: Vec::new(),
            origin: None,
            space: Vec::new(),
        }
    }

    /// Build the document of a sysroot; the caller adds the state of a running host.
    #[must_use]
    pub fn of_sysroot(agent: AgentItem, deployments: Vec<DeploymentItem>) -> Self {
        Self { deployments, ..Self::of_tree(agent, None) }
    }
}
