//! Reads the fleet once, or follows it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};

use crate::cli::CliError;
use crate::cluster::{FleetClient, FleetResource, NodePool, UnreadResource, WatchedFleet};
use crate::core::fleet::update_graph::UpdateGraph;
use crate::core::fleet::{FleetNode, FleetOverview, FleetPool, FleetSlot, ReleaseRow};
use crate::core::values::causes::chain;
use crate::report::fleet::FleetDocument;

/// Shortest time between two outputs of a fleet that changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Part of the fleet that an invocation shows.
pub(super) struct FleetView<'a> {
    /// Pool whose nodes are shown; `None` for all.
    pub(super) pool: Option<&'a str>,
    /// Graph that tells the releases.
    pub(super) graph: Option<UpdateGraph>,
}

impl FleetView<'_> {
    fn document<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n FleetNode>,
        pools: &[NodePool],
        slots: &[FleetSlot],
        cluster: Option<&str>,
        missing: Vec<String>,
    ) -> FleetDocument {
        let pools: Vec<FleetPool> = pools.iter().map(FleetPool::from).collect();
        let mut fleet = FleetOverview::of(nodes, &pools, slots, self.pool, Timestamp::now());
        if let Some(graph) = &self.graph {
            fleet.releases = ReleaseRow::of_fleet(graph, cluster, &fleet.nodes);
        }
        FleetDocument::of(fleet, missing)
    }

    /// Read the version that the cluster runs, where it is of use.
    async fn cluster_version(&self, client: &FleetClient, missing: &mut Vec<String>) -> Option<String> {
        self.graph.as_ref()?;
        client.cluster_version().await.unwrap_or_else(|error| {
            missing.push(format!("the ClusterVersion cannot be read: {}", chain(&error)));
            None
        })
    }
}

/// Read the fleet. Unreadable objects other than Nodes are left out, and named.
pub(super) async fn read(client: &FleetClient, view: &FleetView<'_>) -> Result<FleetDocument, CliError> {
    let mut missing = Vec::new();
    let cluster = view.cluster_version(client, &mut missing).await;
    let (pools, slots) = others(client, &mut missing).await;
    let nodes = client.nodes().await?;
    let nodes: Vec<_> = nodes.into_iter().map(|node| node.in_pools(&pools)).collect();
    Ok(view.document(&nodes, &pools, &slots, cluster.as_deref(), missing))
}

async fn others(client: &FleetClient, missing: &mut Vec<String>) -> (Vec<NodePool>, Vec<FleetSlot>) {
    let mut note = |resource, error| missing.push(chain(&UnreadResource { resource, error }));
    let pools = client.pools().await.unwrap_or_else(|error| {
        note(FleetResource::Pools, error);
        Vec::new()
    });
    let slots = client.slots().await.unwrap_or_else(|error| {
        note(FleetResource::Slots, error);
        Vec::new()
    });
    (pools, slots)
}

/// Follow the fleet until standard output is closed: one watch per resource.
pub(super) async fn watch(
    client: &FleetClient,
    view: &FleetView<'_>,
    show: impl Fn(&FleetDocument) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut changes = client.watch()?;
    let (mut fleet, mut unread) = (WatchedFleet::default(), Vec::new());
    let mut failed = BTreeMap::new();
    let cluster = view.cluster_version(client, &mut unread).await;
    let mut due: Option<Instant> = None;
    loop {
        let next = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => {
                    let had_nodes = fleet.has_nodes();
                    let mut is_new = true;
                    match change {
                        Ok(change) => {
                            failed.remove(&change.resource());
                            fleet.take(change);
                        }
                        // Without them there is nothing to show.
                        Err(UnreadResource { resource: FleetResource::Nodes, error }) if !had_nodes => {
                            return Err(error.into());
                        }
                        Err(unread) => {
                            let reason = chain(&unread);
                            // Each attempt fails with the same.
                            is_new = failed.insert(unread.resource, reason.clone()) != Some(reason);
                        }
                    }
                    if is_new && fleet.has_nodes() {
                        let pause = if had_nodes { PAUSE } else { Duration::ZERO };
                        due.get_or_insert(Instant::now() + pause);
                    }
                }
                None => return Ok(()),
            },
            () = next => {
                due = None;
                let (pools, slots) = (fleet.pools(), fleet.slots());
                let nodes = fleet.nodes(&pools);
                let missing = unread.iter().chain(failed.values()).cloned().collect();
                show(&view.document(&nodes, &pools, &slots, cluster.as_deref(), missing))?;
            }
        }
    }
}
