//! Page of the book with the figures of the trials.

use crate::agent::FleetProtocol;
use crate::trial::{PartFigures, TrialFigures};

const PREFACE: &str = "\
# Scale

Written by `cargo xtask scale --write`: fleets of simulated agents in one process, against a real API server (the library of
Kubernetes' own, with etcd) on the same machine. Each agent runs the product's source, state machine and publication, over a
host that carries out each request at once; each has connections of its own, one per identity. 20 agents join per second, and all
update at once: no component of the cluster and no reboot policy spreads them.
";

const NOTES: &str = "
- An update is everything from the new config to `Done`: fetch, phases, drain by the cluster's controller (with the
  machine-config-operator), reboot, and the first look of the new daemon. Its time is bounded by the processors that agents and
  API server share here, and means nothing elsewhere; the numbers of requests and events do.
- Requests are those of the agents, without the components of the cluster. Events of watches are all that the server sent, to
  agents and components. During the whole trial the status of the pool changes every 5 s, and each change goes to every agent.
- The API server is killed, stays away for 30 s and starts over the same etcd. The fleet is back once all watches are open
  again and no agent reports an error. Agents come back over some seconds, by chance: see the plot.
- The memory of agents is the growth of the process of all of them, per agent, in its first trial: later ones use that memory again.
  A real agent also has the memory of a process.

![Progress of an update, and watches after an outage](scale.svg)
";

/// Row of the table: its label, and the figure of a trial.
type TableRow = (&'static str, fn(&TrialFigures) -> String);

/// Rows of the table.
const ROWS: [TableRow; 15] = [
    ("watches per agent", |trial| per_agent(trial, trial.rest.server.watches)),
    ("connections per agent", |trial| per_agent(trial, as_float(trial.connections))),
    ("join: seconds", |trial| seconds(&trial.join)),
    ("join: requests per agent", |trial| requests(trial, &trial.join)),
    ("at rest: requests per agent and hour", |trial| hourly(trial, as_float(trial.rest.requests))),
    ("at rest: events of watches per agent and hour", |trial| hourly(trial, trial.rest.server.watch_events)),
    ("update: seconds", |trial| seconds(&trial.update)),
    ("update: requests per agent", |trial| requests(trial, &trial.update)),
    ("update: events of watches per agent", |trial| per_agent(trial, trial.update.server.watch_events)),
    ("update: KiB of watches per agent", |trial| per_agent(trial, trial.update.server.watch_bytes / 1024.0)),
    ("outage: seconds until all are back", |trial| seconds(&trial.recovery)),
    ("outage: requests per agent", |trial| requests(trial, &trial.recovery)),
    ("memory of the API server at rest, MiB", |trial| format!("{:.0}", trial.rest.server_memory)),
    ("memory of the API server, largest, MiB", |trial| {
        let parts = [&trial.join, &trial.update, &trial.recovery];
        format!("{:.0}", parts.iter().map(|part| part.server_memory).fold(0.0, f64::max))
    }),
    ("memory of the agents, KiB per agent", |trial| {
        trial.agents_memory.map_or_else(|| "–".to_owned(), |mebibytes| per_agent(trial, mebibytes * 1024.0))
    }),
];

#[expect(clippy::cast_precision_loss, reason = "counts of a trial are below 2^52")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "a fleet has fewer agents than 2^52")]
fn per_agent(trial: &TrialFigures, sum: f64) -> String {
    format!("{:.1}", sum / trial.agents as f64)
}

fn hourly(trial: &TrialFigures, sum: f64) -> String {
    per_agent(trial, sum * 3600.0 / trial.rest.seconds)
}

fn seconds(part: &PartFigures) -> String {
    format!("{:.0}", part.seconds)
}

fn requests(trial: &TrialFigures, part: &PartFigures) -> String {
    per_agent(trial, as_float(part.requests))
}

/// Name of a trial.
pub(crate) fn title(trial: &TrialFigures) -> String {
    let protocol = match trial.protocol {
        FleetProtocol::Operator => "machine-config-operator",
        FleetProtocol::Pool => "pool",
    };
    format!("{protocol}, {} agents", trial.agents)
}

/// Draw up the table of the trials.
pub(crate) fn table(trials: &[TrialFigures]) -> String {
    let mut rows = vec![std::iter::once(String::new()).chain(trials.iter().map(title)).collect::<Vec<_>>()];
    rows.extend(ROWS.iter().map(|(label, figure)| {
        std::iter::once((*label).to_owned()).chain(trials.iter().map(figure)).collect()
    }));
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..=trials.len()).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!(" {cell:width$} |") } else { format!(" {cell:>width$} |") }
        });
        format!("|{}\n", cells.collect::<String>())
    };
    let rule = widths.iter().enumerate().map(|(column, width)| {
        if column == 0 {
            format!(":{}|", "-".repeat(width + 1))
        } else {
            format!("{}:|", "-".repeat(width + 1))
        }
    });
    let mut lines = rows.iter().map(line);
    let heading = lines.next().unwrap_or_default();
    format!("{heading}|{}\n{}", rule.collect::<String>(), lines.collect::<String>())
}

/// Return the whole page.
pub(crate) fn whole(trials: &[TrialFigures]) -> String {
    let table = table(trials);
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    debug_assert!(!trials.is_empty());
    format!("{PREFACE}\nMeasured on {day}, on {cores} processors.\n\n{table}{NOTES}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_metrics::ServerFigures;

    #[test]
    fn table_has_a_column_per_trial() {
        let part = PartFigures {
            seconds: 60.0,
            requests: 30,
            server: ServerFigures { requests: 0.0, watches: 20.0, watch_events: 40.0, watch_bytes: 20_480.0 },
            server_memory: 100.0,
        };
        let trial = TrialFigures {
            agents: 10,
            protocol: FleetProtocol::Pool,
            join: part,
            rest: part,
            update: part,
            connections: 25,
            recovery: PartFigures { server_memory: 300.0, ..part },
            agents_memory: Some(5.0),
            updated: Vec::new(),
            watching: Vec::new(),
        };
        let table = table(&[trial]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines.iter().all(|line| line.len() == lines.first().unwrap().len()), "{table}");
        let cells = |label: &str| {
            let line = lines.iter().find(|line| line.contains(label)).unwrap();
            line.split('|').nth(2).unwrap().trim().to_owned()
        };
        assert_eq!(cells("watches per agent"), "2.0");
        assert_eq!(cells("connections per agent"), "2.5");
        assert_eq!(cells("requests per agent and hour"), "180.0");
        assert_eq!(cells("KiB of watches per agent"), "2.0");
        assert_eq!(cells("largest"), "300");
        assert_eq!(cells("memory of the agents"), "512.0");
    }
}
