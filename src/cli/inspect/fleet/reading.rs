//! Reads the fleet once, or follows it.

use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};

use super::{FleetArgs, print};
use crate::cli::CliError;
use crate::cluster::{ClusterError, FleetChange, FleetClient, NodePool, WatchedFleet};
use crate::core::fleet::{FleetNode, FleetOverview, FleetPool, FleetSlot};
use crate::core::values::causes::chain;
use crate::report::fleet::FleetDocument;

/// Shortest time between two outputs of a fleet that changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Read the fleet. What cannot be read besides the Nodes is left out, and named.
pub(super) async fn read(client: &FleetClient, pool: Option<&str>) -> Result<FleetDocument, CliError> {
    let mut missing = Vec::new();
    let (pools, slots) = others(client, &mut missing).await;
    let nodes = client.nodes().await?;
    let nodes: Vec<_> = nodes.into_iter().map(|node| node.in_pools(&pools)).collect();
    Ok(document(&nodes, &pools, &slots, pool, missing))
}

async fn others(client: &FleetClient, missing: &mut Vec<String>) -> (Vec<NodePool>, Vec<FleetSlot>) {
    let pools = client.pools().await.unwrap_or_else(|error| {
        missing.push(format!("the pools cannot be read: {}", chain(&error)));
        Vec::new()
    });
    let slots = client.slots().await.unwrap_or_else(|error| {
        missing.push(format!("the slots of reboot locks cannot be read: {}", chain(&error)));
        Vec::new()
    });
    (pools, slots)
}

fn document<'a>(
    nodes: impl IntoIterator<Item = &'a FleetNode>,
    pools: &[NodePool],
    slots: &[FleetSlot],
    only: Option<&str>,
    missing: Vec<String>,
) -> FleetDocument {
    let pools: Vec<FleetPool> = pools.iter().map(FleetPool::from).collect();
    FleetDocument::of(FleetOverview::of(nodes, &pools, slots, only, Timestamp::now()), missing)
}

/// Follow the fleet until standard output is closed: one watch per resource.
pub(super) async fn watch(args: &FleetArgs, client: &FleetClient) -> Result<(), CliError> {
    let mut changes = client.watch()?;
    let (mut fleet, mut missing) = (WatchedFleet::default(), Vec::<String>::new());
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
                Some(Ok(change)) => {
                    let is_first = matches!(change, FleetChange::Nodes(_)) && !fleet.has_nodes() && due.is_none();
                    fleet.take(change);
                    missing.clear();
                    if fleet.has_nodes() {
                        let pause = if is_first { Duration::ZERO } else { PAUSE };
                        due.get_or_insert(Instant::now() + pause);
                    }
                }
                Some(Err(error)) => note_missing(&mut missing, &error),
                None => return Ok(()),
            },
            () = next => {
                due = None;
                let (pools, slots) = (fleet.pools(), fleet.slots());
                let nodes = fleet.nodes(&pools);
                let document = document(&nodes, &pools, &slots, args.pool.as_deref(), missing.clone());
                print(&document, args.output.format)?;
            }
        }
    }
}

fn note_missing(missing: &mut Vec<String>, error: &ClusterError) {
    let reason = chain(error);
    if !missing.contains(&reason) {
        missing.push(reason);
    }
}
