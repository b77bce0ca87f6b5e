//! The whole fleet at a glance: the reports of a cluster's Nodes, grouped by pool and by the cause of their wait.

mod overview;
mod pool_rules;
mod release_rows;
mod story;
mod unused_configs;
pub mod update_graph;

pub use overview::{BlockedTargetRow, FleetOverview, NodeRow, PoolRow, SlotRow};
pub use pool_rules::pool_rules;
pub use release_rows::{ReleaseRow, ReleaseStep};
pub use story::{FleetCondition, FleetEvent, story};
pub use unused_configs::{SilentNodes, StoredConfig, unused_configs};

use crate::core::daemon::node::node_report::NodeReport;
use crate::core::values::identifiers::ConfigName;

/// Node of the cluster, as far as a fleet is concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetNode {
    pub name: String,
    /// Pool that the Node belongs to, or the reason why it is not known.
    pub pool: NodePoolName,
    /// Pools that select the Node too, and that its own goes before.
    pub other_pools: Vec<String>,
    /// Condition `Ready`; `None` if the Node has none.
    pub is_ready: Option<bool>,
    pub is_cordoned: bool,
    /// Version of the operating system.
    pub os: String,
    /// Report of the agent; `None` if another agent serves the Node, or none.
    pub report: Option<NodeReport>,
    /// Annotations of the machine-config-operator.
    pub mco: McoState,
}

impl FleetNode {
    /// Return the report, unless the machine-config-daemon has updated the Node since: one that was given back to it keeps the
    /// last report of the agent.
    #[must_use]
    pub fn valid_report(&self) -> Option<&NodeReport> {
        let is_left = |report: &NodeReport| {
            let reported = report.current.as_ref().map(ConfigName::as_str);
            report.phase == "Done" && self.mco.current.as_deref().is_some_and(|now| Some(now) != reported)
        };
        self.report.as_ref().filter(|report| !is_left(report))
    }
}

/// Pool of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodePoolName {
    /// The cluster has no pools, or they cannot be read.
    #[default]
    Unknown,
    Named(String),
    /// The labels match no pool, or several.
    Ambiguous(String),
}

/// State of a Node by the annotations of the machine-config-operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McoState {
    pub state: Option<String>,
    pub reason: Option<String>,
    pub desired: Option<String>,
    pub current: Option<String>,
}

/// Pool of Nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetPool {
    pub name: String,
    pub is_paused: bool,
    /// Name of the rendered config that the pool's Nodes get.
    pub desired: Option<String>,
}

/// Slot of a reboot lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetSlot {
    pub group: String,
    /// Name of the Lease.
    pub lease: String,
    /// Name of the Node that holds it; `None` if it is free.
    pub holder: Option<String>,
    /// Time of the last renewal, by the clock of the holder.
    pub renewed: Option<jiff::Timestamp>,
}
