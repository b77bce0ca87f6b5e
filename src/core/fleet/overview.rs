//! Rows of the fleet: nodes, pools, slots and blocked targets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{FleetNode, FleetPool, FleetSlot, NodePoolName, ReleaseRow};
use crate::core::values::foreign_text::harmless_line;

/// Agent of a Node that only the annotations of the machine-config-operator describe.
const MCD: &str = "machine-config-daemon";
/// Seconds over which the rate of a rollout is measured.
const HOUR: i64 = 3600;
/// Seconds after which a host that reboots is missed: longer than the boot of a large server.
const LONGEST_REBOOT: i64 = 1800;

/// The fleet at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetOverview {
    /// Pools, by name.
    pub pools: Vec<PoolRow>,
    /// Nodes, by name.
    pub nodes: Vec<NodeRow>,
    /// Slots of reboot locks, by group and number.
    pub slots: Vec<SlotRow>,
    /// Configs that are blocked on nodes, each reason once.
    pub blocked: Vec<BlockedTargetRow>,
    /// Releases that the nodes run, by version, with what follows each in the update graph of `--graph`; empty without it.
    pub releases: Vec<ReleaseRow>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub name: String,
    /// Pool of the node; null if it is not known.
    pub pool: Option<String>,
    /// Phase of the agent's daemon, or the state that the machine-config-daemon reports; null for a node without an agent.
    pub phase: Option<String>,
    /// Time at which the phase began, by the clock of the host.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
    pub desired: Option<String>,
    pub current: Option<String>,
    /// Subject of its wait, or reason of its error.
    pub reason: Option<String>,
    /// True if the node is up to date: its current config is the desired one, and the agent is done with it.
    pub is_updated: bool,
    /// Agent and its version.
    pub agent: Option<String>,
    /// Operating system and its version.
    pub os: String,
    /// Condition `Ready` of the node; null if it has none.
    pub is_ready: Option<bool>,
    pub is_cordoned: bool,
}

/// A pool and the progress of its rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    pub name: String,
    pub is_paused: bool,
    /// Config that the pool's nodes get; null while it has none.
    pub desired: Option<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of nodes that run the pool's config and are done with it.
    pub updated: usize,
    /// Number of nodes that wait for a grant of their reboot policy.
    pub waiting: usize,
    /// Number of nodes that need help: blocked, degraded or not Ready.
    pub need_help: usize,
    /// Number of nodes that got up to date within the last hour.
    pub updated_last_hour: usize,
}

/// A slot of a reboot lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlotRow {
    pub group: String,
    /// Name of the Lease.
    pub lease: String,
    /// Node that holds the slot; null if it is free.
    pub holder: Option<String>,
    /// Time of the last renewal, by the clock of the holder.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub renewed: Option<Timestamp>,
}

/// A config that is blocked on nodes for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlockedTargetRow {
    pub config: String,
    pub reason: String,
    /// Nodes, by name.
    pub nodes: Vec<String>,
}

impl FleetOverview {
    /// Describe the fleet at `now`; with a pool, only its nodes.
    #[must_use]
    pub fn of<'a>(
        nodes: impl IntoIterator<Item = &'a FleetNode>,
        pools: &[FleetPool],
        slots: &[FleetSlot],
        only: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let is_shown = |pool: Option<&str>| only.is_none_or(|only| pool == Some(only));
        let (mut rows, mut blocked) = (Vec::new(), BTreeMap::<_, Vec<String>>::new());
        for node in nodes {
            let row = NodeRow::of(node, pools);
            if !is_shown(row.pool.as_deref()) {
                continue;
            }
            if let Some(target) = node.valid_report().and_then(|report| report.blocked.as_ref()) {
                let key = (target.config.to_string(), harmless_line(&target.reason).into_owned());
                blocked.entry(key).or_default().push(row.name.clone());
            }
            rows.push(row);
        }
        let pools = pools.iter().filter(|pool| is_shown(Some(&pool.name)));
        let pools = pools.map(|pool| PoolRow::of(pool, &rows, now)).collect();
        let blocked = blocked.into_iter();
        let slots = slots.iter().map(|slot| SlotRow {
            group: slot.group.clone(),
            lease: slot.lease.clone(),
            holder: slot.holder.clone(),
            renewed: slot.renewed,
        });
        Self {
            pools,
            nodes: rows,
            slots: slots.collect(),
            blocked: blocked
                .map(|((config, reason), nodes)| BlockedTargetRow { config, reason, nodes })
                .collect(),
            releases: Vec::new(),
        }
    }
}

impl NodeRow {
    fn of(node: &FleetNode, pools: &[FleetPool]) -> Self {
        let line = |text: &String| harmless_line(text).into_owned();
        let (pool, pool_problem) = match &node.pool {
            NodePoolName::Named(name) => (Some(name.clone()), None),
            NodePoolName::Ambiguous(reason) => (None, Some(line(reason))),
            NodePoolName::Unknown => (None, None),
        };
        let mut row = match node.valid_report() {
            Some(report) => Self {
                phase: Some(line(&report.phase)),
                since: Some(report.since),
                desired: report.desired.as_ref().map(ToString::to_string),
                current: report.current.as_ref().map(ToString::to_string),
                reason: report.reason.as_ref().map(line),
                agent: Some(format!("flameholder {}", line(&report.agent))),
                ..Self::empty(node)
            },
            None => Self {
                phase: node.mco.state.as_ref().map(line),
                desired: node.mco.desired.as_ref().map(line),
                current: node.mco.current.as_ref().map(line),
                reason: node.mco.reason.as_ref().filter(|reason| !reason.is_empty()).map(line),
                agent: node.mco.state.as_ref().map(|_| MCD.to_owned()),
                ..Self::empty(node)
            },
        };
        row.pool = pool;
        row.reason = row.reason.or(pool_problem);
        // The pool's config counts where it is known: a paused node has not heard of it yet.
        let target = pools.iter().find(|pool| Some(&pool.name) == row.pool.as_ref());
        let target = target.and_then(|pool| pool.desired.as_ref()).or(row.desired.as_ref());
        row.is_updated =
            row.phase.as_deref() == Some("Done") && target.is_some() && row.current.as_ref() == target;
        row
    }

    fn empty(node: &FleetNode) -> Self {
        Self {
            name: harmless_line(&node.name).into_owned(),
            pool: None,
            phase: None,
            since: None,
            desired: None,
            current: None,
            reason: None,
            is_updated: false,
            agent: None,
            os: harmless_line(&node.os).into_owned(),
            is_ready: node.is_ready,
            is_cordoned: node.is_cordoned,
        }
    }

    /// Return true if a person has to look at the node at `now`.
    #[must_use]
    pub fn needs_help(&self, now: Timestamp) -> bool {
        const PHASES: [&str; 6] =
            ["BackingOff", "Blocked", "Degraded", "Drifted", "RollingBack", "Unreconcilable"];
        // A host that reboots is not Ready for a while.
        const REBOOTS: [&str; 3] = ["Rebooting", "ShuttingDown", "CheckingBoot"];
        let is_stuck = self.phase.as_deref().is_some_and(|phase| PHASES.contains(&phase));
        let is_recent = self.since.is_some_and(|since| now.as_second() - since.as_second() < LONGEST_REBOOT);
        let reboots = is_recent && self.phase.as_deref().is_some_and(|phase| REBOOTS.contains(&phase));
        is_stuck || (self.is_ready == Some(false) && !reboots)
    }
}

impl PoolRow {
    fn of(pool: &FleetPool, nodes: &[NodeRow], now: Timestamp) -> Self {
        let mut row = Self {
            name: pool.name.clone(),
            is_paused: pool.is_paused,
            desired: pool.desired.clone(),
            nodes: 0,
            updated: 0,
            waiting: 0,
            need_help: 0,
            updated_last_hour: 0,
        };
        for node in nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name)) {
            row.nodes += 1;
            row.updated += usize::from(node.is_updated);
            row.waiting += usize::from(node.phase.as_deref() == Some("AwaitingGrant"));
            row.need_help += usize::from(node.needs_help(now));
            let is_recent = node.since.is_some_and(|since| now.as_second() - since.as_second() < HOUR);
            row.updated_last_hour += usize::from(node.is_updated && is_recent);
        }
        row
    }

    /// Return the hours until all nodes are updated at the rate of the last hour; `None` without a rate.
    #[must_use]
    pub fn hours_left(&self) -> Option<usize> {
        let left = self.nodes - self.updated;
        (left > 0 && self.updated_last_hour > 0).then(|| left.div_ceil(self.updated_last_hour))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::node::node_report::{BlockedReport, NodeReport};

    fn node(name: &str, phase: &str, current: &str, since: i64) -> FleetNode {
        let report = NodeReport {
            schema: 1,
            phase: phase.to_owned(),
            since: Timestamp::from_second(since).unwrap(),
            desired: Some("rendered-b".into()),
            current: Some(current.into()),
            reason: None,
            waits_for: None,
            failures: 0,
            blocked: (phase == "Blocked")
                .then(|| BlockedReport { config: "rendered-b".into(), reason: "not\u{1b} healthy".into() }),
            agent: "0.1.0".to_owned(),
        };
        FleetNode {
            name: name.to_owned(),
            pool: NodePoolName::Named("worker".to_owned()),
            is_ready: Some(true),
            report: Some(report),
            ..FleetNode::default()
        }
    }

    #[test]
    fn progress_of_a_pool_is_counted_by_its_config() {
        let nodes = [
            node("a", "Done", "rendered-b", 9000),
            node("b", "Done", "rendered-b", 10),
            node("c", "AwaitingGrant", "rendered-a", 9000),
            node("d", "Blocked", "rendered-a", 9000),
            node("e", "Blocked", "rendered-a", 9000),
            FleetNode {
                name: "f".into(),
                pool: NodePoolName::Ambiguous("two".into()),
                ..FleetNode::default()
            },
        ];
        let pool = FleetPool { name: "worker".into(), is_paused: true, desired: Some("rendered-b".into()) };
        let now = Timestamp::from_second(10_000).unwrap();
        let fleet = FleetOverview::of(&nodes, &[pool], &[], None, now);
        let row = &fleet.pools[0];
        assert_eq!((row.nodes, row.updated, row.waiting, row.need_help), (5, 2, 1, 2));
        assert_eq!((row.updated_last_hour, row.hours_left()), (1, Some(3)));
        let blocked = BlockedTargetRow {
            config: "rendered-b".into(),
            reason: "not\u{fffd} healthy".into(),
            nodes: vec!["d".into(), "e".into()],
        };
        assert_eq!(fleet.blocked, [blocked]);
        assert_eq!(fleet.nodes[5].reason.as_deref(), Some("two"));
        let only = FleetOverview::of(&nodes, &[], &[], Some("worker"), now);
        assert_eq!(only.nodes.len(), 5);
    }

    #[test]
    fn host_that_reboots_needs_help_only_if_it_does_not_come_back() {
        let needs_help = |phase| {
            let node = FleetNode { is_ready: Some(false), ..node("a", phase, "rendered-a", 10) };
            let row = NodeRow::of(&node, &[]);
            let since = row.since.unwrap().as_second();
            [60, LONGEST_REBOOT].map(|later| row.needs_help(Timestamp::from_second(since + later).unwrap()))
        };
        for (phase, soon) in [
            ("Rebooting", false),
            ("ShuttingDown", false),
            ("CheckingBoot", false),
            ("Draining", true),
            ("Done", true),
        ] {
            assert_eq!(needs_help(phase), [soon, true], "{phase}");
        }
    }

    #[test]
    fn last_report_of_a_node_that_was_given_back_is_not_shown() {
        let mco = |current: &str| super::super::McoState {
            state: Some("Done".into()),
            current: Some(current.into()),
            ..super::super::McoState::default()
        };
        let agent = |phase, mco| {
            let node = FleetNode { mco, ..node("a", phase, "rendered-a", 10) };
            NodeRow::of(&node, &[]).agent.unwrap()
        };
        assert_eq!(agent("Done", mco("rendered-b")), MCD);
        // The annotations of the operator follow the report of an agent that is at work.
        for (phase, mco) in [
            ("Done", mco("rendered-a")),
            ("Blocked", mco("rendered-b")),
            ("Done", super::super::McoState::default()),
        ] {
            assert_eq!(agent(phase, mco), "flameholder 0.1.0", "{phase}");
        }
    }

    #[test]
    fn node_of_another_agent_is_described_by_its_annotations() {
        let mco = super::super::McoState {
            state: Some("Degraded".into()),
            reason: Some("disk full".into()),
            desired: Some("b".into()),
            current: Some("a".into()),
        };
        let row = NodeRow::of(&FleetNode { name: "n".into(), mco, ..FleetNode::default() }, &[]);
        assert_eq!((row.phase.as_deref(), row.reason.as_deref()), (Some("Degraded"), Some("disk full")));
        assert!(
            row.needs_help(Timestamp::UNIX_EPOCH) && !row.is_updated && row.agent.as_deref() == Some(MCD)
        );
        let nothing = NodeRow::of(&FleetNode::default(), &[]);
        assert!(!nothing.needs_help(Timestamp::UNIX_EPOCH) && nothing.agent.is_none());
    }
}
