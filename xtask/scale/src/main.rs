//! Proof of scale: a fleet of simulated agents, in one process, against a real API server. What the agents are asked to do
//! at the host is done at once; what they do at the cluster is the product's own code.

mod agent;
mod network;
mod operator;
mod page;
mod plot;
mod progress;
mod server_metrics;
mod trial;

use std::process::ExitCode;
use std::time::Duration;

use agent::FleetProtocol;
use anyhow::{Result, ensure};
use clap::Parser;
use trial::TrialSetup;

/// Pages that `--write` writes, relative to the root of the repository.
const PAGE: &str = "docs/development/scale.md";
const PLOT: &str = "docs/development/scale.svg";

/// Run fleets of simulated agents against a real API server, and print what they cost it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask scale")]
struct ScaleArgs {
    /// Number of agents of a fleet with the machine-config-operator; several times for several fleets
    #[arg(long, value_name = "N", default_values_t = [1000, 5000])]
    operator: Vec<u32>,
    /// Number of agents of a fleet whose configs a pool names; several times for several fleets
    #[arg(long, value_name = "N", default_values_t = [1000, 5000])]
    pool: Vec<u32>,
    /// Watch each fleet at rest for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    rest: u64,
    /// Stop the API server for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    outage: u64,
    /// Write the table and the plot to the book as well
    #[arg(long)]
    write: bool,
}

fn main() -> ExitCode {
    match run(&ScaleArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &ScaleArgs) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "the trial runs in a network of its own: run it as root");
    let operator = args.operator.iter().map(|agents| (*agents, FleetProtocol::Operator));
    let fleets: Vec<_> =
        operator.chain(args.pool.iter().map(|agents| (*agents, FleetProtocol::Pool))).collect();
    let needed = fleets.iter().map(|(agents, protocol)| u64::from(*agents) * protocol.connections());
    network::isolate(needed.max().unwrap_or_default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let [rest, outage] = [args.rest, args.outage].map(Duration::from_secs);
    let mut trials = Vec::new();
    for (agents, protocol) in fleets.into_iter().filter(|(agents, _)| *agents > 0) {
        let is_first = trials.is_empty();
        let setup = TrialSetup { agents: usize::try_from(agents)?, protocol, is_first, rest, outage };
        trials.push(runtime.block_on(trial::run(setup))?);
        // After each, so that a trial that fails leaves the figures of those before it.
        if args.write {
            let root = testbed::repository();
            std::fs::write(root.join(PAGE), page::whole(&trials))?;
            std::fs::write(root.join(PLOT), plot::draw(&trials))?;
        }
    }
    print!("{}", page::table(&trials));
    Ok(())
}
