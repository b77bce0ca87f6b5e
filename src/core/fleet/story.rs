//! Story of one Node: its report, its conditions and the events about it, in the order of time.

use jiff::Timestamp;

use super::NodeRow;
use crate::core::values::foreign_text::harmless_line;

/// Condition of a Node or of its `MachineConfigNode`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetCondition {
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    /// Time of its last transition.
    pub since: Option<Timestamp>,
}

/// Event about a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetEvent {
    pub time: Option<Timestamp>,
    pub reason: String,
    pub message: String,
    pub is_warning: bool,
    /// Number of its repetitions.
    pub count: i64,
}

/// Return the lines of the story: conditions that changed, and events, the oldest first.
#[must_use]
pub fn story(
    row: &NodeRow,
    conditions: &[FleetCondition],
    events: &[FleetEvent],
) -> Vec<(Option<Timestamp>, String)> {
    let mut lines: Vec<(Option<Timestamp>, String)> = Vec::new();
    for FleetCondition { kind, status, reason, message, since } in conditions {
        let why = [reason, message].into_iter().filter(|text| !text.is_empty());
        let why: Vec<_> = why.map(|text| harmless_line(text).into_owned()).collect();
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(": ")) };
        lines.push((*since, format!("condition {} is {}{why}", harmless_line(kind), harmless_line(status))));
    }
    for FleetEvent { time, reason, message, count, .. } in events {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        lines.push((*time, format!("{}: {}{times}", harmless_line(reason), harmless_line(message))));
    }
    if let Some(phase) = &row.phase {
        let reason = row.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push((row.since, format!("in {phase}{reason}")));
    }
    lines.sort_by_key(|(time, _)| *time);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fleet::{FleetNode, FleetOverview};

    #[test]
    fn story_is_told_in_the_order_of_time() {
        let time = |second| Some(Timestamp::from_second(second).unwrap());
        let condition = FleetCondition {
            kind: "Ready".into(),
            status: "True".into(),
            reason: "KubeletReady".into(),
            message: String::new(),
            since: time(20),
        };
        let event = |second, count| FleetEvent {
            time: time(second),
            reason: "Reboot".into(),
            message: "the node\nreboots".into(),
            is_warning: false,
            count,
        };
        let nodes = [FleetNode { name: "a".into(), ..FleetNode::default() }];
        let fleet = FleetOverview::of(&nodes, &[], &[], None, Timestamp::UNIX_EPOCH);
        let told = story(&fleet.nodes[0], &[condition], &[event(30, 2), event(10, 1)]);
        let told: Vec<_> = told.into_iter().map(|(_, line)| line).collect();
        let expected = [
            "Reboot: the node reboots",
            "condition Ready is True: KubeletReady",
            "Reboot: the node reboots (2 times)",
        ];
        assert_eq!(told, expected);
    }
}
