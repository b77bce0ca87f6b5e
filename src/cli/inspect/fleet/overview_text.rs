//! Text of the fleet: pools, nodes, slots, blocked targets.

use jiff::Timestamp;

use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::core::fleet::{FleetOverview, NodeRow, PoolRow, ReleaseRow, ReleaseStep, SlotRow};
use crate::core::history::duration;

/// Longest reason in a row, in characters; `fleet explain` shows all of it.
const REASON: usize = 90;

/// Row of a table, and the style of the whole row.
type TableRow = (Option<TextRole>, Vec<String>);

/// Render the fleet as it is at `now`.
pub(super) fn render(fleet: &FleetOverview, now: Timestamp) -> StyledText {
    let mut text = StyledText::default();
    if !fleet.pools.is_empty() {
        let rows = fleet.pools.iter().map(pool_row).collect();
        push_table(
            &mut text,
            &["POOL", "CONFIG", "NODES", "UPDATED", "WAITING", "NEED HELP", "LAST HOUR", ""],
            rows,
        );
        text.push("\n");
    }
    let rows = fleet.nodes.iter().map(|node| node_row(node, now)).collect();
    push_table(&mut text, &["NODE", "POOL", "PHASE", "FOR", "CONFIG", "AGENT", "REASON"], rows);
    if fleet.nodes.is_empty() {
        text.push("no nodes\n");
    }
    let held: Vec<&SlotRow> = fleet.slots.iter().filter(|slot| slot.holder.is_some()).collect();
    if !fleet.slots.is_empty() {
        text.push(format!("\n{} of {} slots are held\n", held.len(), fleet.slots.len()));
        for slot in held {
            let age =
                slot.renewed.map(|time| format!(", renewed {} ago", age(time, now))).unwrap_or_default();
            text.push(format!("  {}: {}{age}\n", slot.lease, slot.holder.as_deref().unwrap_or_default()));
        }
    }
    if !fleet.releases.is_empty() {
        text.push("\n");
    }
    for release in &fleet.releases {
        push_release(&mut text, release);
    }
    for blocked in &fleet.blocked {
        text.push("\n").push_as(TextRole::Alarm, "blocked:").push(format!(
            " {} on {}: {}\n",
            blocked.config,
            blocked.nodes.join(", "),
            blocked.reason
        ));
    }
    text
}

/// Tell which release follows.
fn push_release(text: &mut StyledText, release: &ReleaseRow) {
    let next = release.next.as_deref().unwrap_or_default();
    let reason = release.reason.as_deref().unwrap_or_default();
    let nodes = if release.nodes == 1 { "node" } else { "nodes" };
    text.push(format!("release {} on {} {nodes}: ", release.version, release.nodes));
    match release.step {
        ReleaseStep::Next => text.push(format!("{next} follows")),
        ReleaseStep::Conditional => {
            text.push(format!("{next} follows for some clusters only; read about the risk {reason}"))
        }
        ReleaseStep::DeadEnd => text.push_as(TextRole::Alarm, "dead end").push(format!(": {reason}")),
        ReleaseStep::Newest => text.push("none follows"),
        ReleaseStep::Unknown => text.push("the graph does not have it"),
    };
    if let Some(reason) = &release.barrier {
        text.push(format!(", a barrier: {reason}"));
    }
    text.push("\n");
}

fn pool_row(pool: &PoolRow) -> TableRow {
    let rest = match (pool.is_paused, pool.hours_left()) {
        (true, _) => "paused".to_owned(),
        (false, Some(hours)) => format!("about {hours} h left"),
        (false, None) => String::new(),
    };
    let cells = vec![
        pool.name.clone(),
        pool.desired.clone().unwrap_or_else(|| "-".to_owned()),
        pool.nodes.to_string(),
        pool.updated.to_string(),
        pool.waiting.to_string(),
        pool.need_help.to_string(),
        pool.updated_last_hour.to_string(),
        rest,
    ];
    (None, cells)
}

fn node_row(node: &NodeRow, now: Timestamp) -> TableRow {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let config = match (&node.current, &node.desired) {
        (Some(current), Some(desired)) if current != desired => format!("{current} -> {desired}"),
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => "-".to_owned(),
    };
    let mut phase = or_dash(&node.phase);
    if node.is_ready == Some(false) {
        phase.push_str(",NotReady");
    }
    if node.is_cordoned {
        phase.push_str(",cordoned");
    }
    let reason = node.reason.clone().unwrap_or_default();
    let shown: String = reason.chars().take(REASON).collect();
    let dots = if shown.len() < reason.len() { "…" } else { "" };
    let cells = vec![
        node.name.clone(),
        or_dash(&node.pool),
        phase,
        node.since.map_or_else(|| "-".to_owned(), |since| age(since, now)),
        config,
        or_dash(&node.agent),
        format!("{shown}{dots}"),
    ];
    (node.needs_help(now).then_some(TextRole::Alarm), cells)
}

/// Spell the time since `time`; the clock of its host may be fast.
fn age(time: Timestamp, now: Timestamp) -> String {
    duration(u64::try_from(now.as_second() - time.as_second()).unwrap_or_default())
}

fn push_table(text: &mut StyledText, headings: &[&str], rows: Vec<TableRow>) {
    if rows.is_empty() {
        return;
    }
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let rows: Vec<TableRow> = std::iter::once((Some(TextRole::Heading), headings)).chain(rows).collect();
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|(_, cells)| cells.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (role, cells) in &rows {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        match role {
            Some(role) => text.push_as(*role, line.trim_end()),
            None => text.push(line.trim_end()),
        };
        text.push("\n");
    }
}
