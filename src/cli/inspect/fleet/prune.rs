//! `flameholder render --prune`: remove rendered configs that nothing in the cluster names.

use super::FleetPlace;
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome};
use crate::core::fleet::{FleetPool, unused_configs};

/// Remove the configs of the cluster that no pool and no node names, and print their names. Refuses while a node of a pool has not
/// reported which configs it has.
pub(in crate::cli::inspect) fn prune(place: &FleetPlace) -> Result<CommandOutcome, CliError> {
    let client = place.client()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::Output)?.block_on(async {
        // Before pools and nodes: a config that is made meanwhile is not looked at.
        let configs = client.configs().await?;
        let pools = client.pools().await?;
        let nodes = client.nodes().await?.into_iter().map(|node| node.in_pools(&pools)).collect::<Vec<_>>();
        let pools: Vec<FleetPool> = pools.iter().map(FleetPool::from).collect();
        for name in unused_configs(&configs, &pools, &nodes)? {
            client.remove_config(&name).await?;
            print_text(&format!("{name}\n"))?;
        }
        Ok(CommandOutcome::Success)
    })
}
