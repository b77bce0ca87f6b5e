//! `flameholder fleet explain`: the story of one node.

use jiff::Timestamp;

use crate::cli::CliError;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::terminal::{print_styled, warn};
use crate::cli::output::words::utc;
use crate::cluster::FleetClient;
use crate::core::fleet::{FleetOverview, FleetPool, NodeRow, pool_rules, story};
use crate::core::values::causes::chain;

/// Print the report of a node, its conditions and the events about it. An unreadable part is left out, and named.
pub(super) async fn explain(client: &FleetClient, name: &str) -> Result<(), CliError> {
    let (node, mut conditions) = client.node(name).await?;
    let pools = client.pools().await.unwrap_or_else(|error| {
        warn(&format!("the pools cannot be read: {}", chain(&error)));
        Vec::new()
    });
    let node = node.in_pools(&pools);
    match client.machine_config_node(name).await {
        Ok(found) => conditions.extend(found.into_iter().filter(|condition| condition.status == "True")),
        Err(error) => warn(&format!("the MachineConfigNode cannot be read: {}", chain(&error))),
    }
    let events = client.events(name).await.unwrap_or_else(|error| {
        warn(&format!("the events about {name} cannot be read: {}", chain(&error)));
        Vec::new()
    });
    let pools: Vec<FleetPool> = pools.iter().map(FleetPool::from).collect();
    let fleet = FleetOverview::of([&node], &pools, &[], None, Timestamp::now());
    let mut text = StyledText::default();
    for row in &fleet.nodes {
        push_node(&mut text, row);
        for rule in pool_rules(&node, row, &pools) {
            text.push(format!("{rule}\n"));
        }
        text.push("\n");
        for (time, line) in story(row, &conditions, &events) {
            text.push(format!("{:22}{line}\n", time.map(utc).unwrap_or_default()));
        }
    }
    for blocked in &fleet.blocked {
        text.push(format!(
            "\n{} is blocked here: {}; `flameholder fleet retry {name}` releases it\n",
            blocked.config, blocked.reason
        ));
    }
    print_styled(&text)
}

fn push_node(text: &mut StyledText, row: &NodeRow) {
    text.push_as(TextRole::Heading, &row.name).push(format!(
        ", pool {}, {}, {}\n",
        row.pool.as_deref().unwrap_or("unknown"),
        row.agent.as_deref().unwrap_or("no agent"),
        row.os
    ));
    for (label, config) in [("current", &row.current), ("desired", &row.desired)] {
        if let Some(config) = config {
            text.push(format!("{label}: {config}\n"));
        }
    }
}
