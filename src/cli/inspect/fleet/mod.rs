//! `flameholder fleet`: the nodes of a cluster on one screen, from any workstation with a kubeconfig.

mod explain;
mod overview_text;
mod prune;
mod reading;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::Timestamp;
pub(super) use prune::prune;
use reading::FleetView;

use crate::cli::inspect::release::load_graph;
use crate::cli::output::terminal::{print_styled, say, warn};
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat};
use crate::cluster::{ClusterIdentity, FleetClient, RequestCounts};
use crate::report::fleet::FleetDocument;

/// Kubeconfig of a person, below the home directory.
const PERSONAL: &str = ".kube/config";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    action: Option<FleetAction>,
    #[command(flatten)]
    place: FleetPlace,
    /// Show the nodes of this pool only
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Update graph (Cincinnati), an `https:` URL or a file: show which release follows those that the nodes run
    #[arg(long, value_name = "URL")]
    graph: Option<String>,
    /// Show the fleet again whenever it changes
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Cluster of the fleet.
#[derive(Debug, Args)]
pub(super) struct FleetPlace {
    /// Kubeconfig of the cluster; of several, separated by colons, the first that exists; default: ~/.kube/config
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<OsString>,
}

#[derive(Debug, Subcommand)]
enum FleetAction {
    /// Tell what happened to a node: its conditions and events, in the order of time
    Explain {
        /// Name of the Node
        node: String,
        #[command(flatten)]
        place: FleetPlace,
    },
    /// Pause a pool: its nodes keep their configs
    Pause {
        /// Name of the `MachineConfigPool`
        pool: String,
        #[command(flatten)]
        place: FleetPlace,
    },
    /// Resume the rollout of a paused pool
    Resume {
        /// Name of the `MachineConfigPool`
        pool: String,
        #[command(flatten)]
        place: FleetPlace,
    },
    /// Release the blocked target of a node, so that its agent tries it again
    Retry {
        /// Name of the Node
        node: String,
        #[command(flatten)]
        place: FleetPlace,
    },
}

impl FleetPlace {
    fn client(&self) -> Result<FleetClient, CliError> {
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(PERSONAL));
        let kubeconfig = self.kubeconfig.as_deref().and_then(first_of).or_else(home).ok_or_else(|| {
            CliError::Usage("no kubeconfig: name one with --kubeconfig or KUBECONFIG".to_owned())
        })?;
        Ok(FleetClient { identity: ClusterIdentity::of(&kubeconfig, RequestCounts::default()) })
    }
}

/// Return the first file of a list that exists, or else the first; `None` for an empty list.
fn first_of(list: &OsStr) -> Option<PathBuf> {
    let whole = PathBuf::from(list);
    let listed = || std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
    if whole.exists() { Some(whole) } else { listed().find(|path| path.exists()).or_else(|| listed().next()) }
}

pub(crate) fn run(args: &FleetArgs) -> Result<CommandOutcome, CliError> {
    let graph = args.graph.as_deref().map(load_graph).transpose()?;
    let view = FleetView { pool: args.pool.as_deref(), graph };
    let show = |document: &FleetDocument| print(document, args.output.format);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::Output)?;
    runtime.block_on(async {
        match &args.action {
            None if args.watch => reading::watch(&args.place.client()?, &view, show).await,
            None => show(&reading::read(&args.place.client()?, &view).await?),
            Some(FleetAction::Explain { node, place }) => explain::explain(&place.client()?, node).await,
            Some(FleetAction::Pause { pool, place }) => set_paused(&place.client()?, pool, true).await,
            Some(FleetAction::Resume { pool, place }) => set_paused(&place.client()?, pool, false).await,
            Some(FleetAction::Retry { node, place }) => {
                let request = Timestamp::now().to_string();
                place.client()?.request_retry(node, &request).await?;
                say(&format!("{node} is asked to try its blocked target again; `flameholder fleet explain {node}` tells what comes of it"));
                Ok(())
            }
        }
    })?;
    Ok(CommandOutcome::Success)
}

async fn set_paused(client: &FleetClient, pool: &str, is_paused: bool) -> Result<(), CliError> {
    client.set_paused(pool, is_paused).await?;
    let now = if is_paused { "is paused: its nodes keep their configs" } else { "goes on" };
    say(&format!("the pool {pool} {now}"));
    Ok(())
}

fn print(document: &FleetDocument, format: OutputFormat) -> Result<(), CliError> {
    match format {
        OutputFormat::Document(notation) => notation.print(document),
        OutputFormat::Text => {
            for missing in &document.missing {
                warn(missing);
            }
            print_styled(&overview_text::render(&document.fleet, Timestamp::now()))
        }
    }
}
