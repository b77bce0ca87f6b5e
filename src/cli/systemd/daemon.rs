//! `flameholder daemon`: connect a source of the desired config with the daemon and run both
//! (`flameholder-daemon.service`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::cli::os_backend::OsBackendArgs;
use crate::cli::source_name::SourceName;
use crate::cli::systemd::work;
use crate::cli::{CliError, CommandOutcome, ProfileName, session};
use crate::cluster::{ClusterClient, ClusterIdentity, RequestCounts};
use crate::core::values::profile::Profile;
use crate::daemon;
use crate::daemon::{DaemonError, DaemonSetup, WorkCommand};
use crate::host::facts::boot;
use crate::host::systemd::reboot_port::InhibitorPolicy;
use crate::source::directory::DirectorySource;
use crate::source::kube::KubeSource;
use crate::source::{SourceCommand, SourceEvent};

/// The kubelet's kubeconfig: its identity may read configs and write this host's Node.
const KUBELET: &str = "/var/lib/kubelet/kubeconfig";

/// Address at which the cluster's monitoring scrapes the machine-config-daemon, through kube-rbac-proxy.
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8797);

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Source of the desired config: `kube`, or `dir:PATH`, a file or a directory of files
    #[arg(long, value_name = "SOURCE", env = "FLAMEHOLDER_SOURCE")]
    source: SourceName,
    /// Kubeconfig for reading configs and policies and for writing the MachineConfigNode
    #[arg(long, value_name = "FILE", default_value = KUBELET, env = "FLAMEHOLDER_KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Kubeconfig for watching and annotating the Node and for sending events; default: that of --kubeconfig
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_NODE_KUBECONFIG")]
    node_kubeconfig: Option<PathBuf>,
    /// Name of this host's Node; default: the host name
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Namespace of the events about this Node
    #[arg(long, value_name = "NAME", default_value = "openshift-machine-config-operator")]
    namespace: String,
    /// Address to serve metrics at; default: 127.0.0.1:8797 with the source `kube`, no metrics otherwise
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Rules that decide which changes can be applied; default: `mcd` with the source `kube`, else `native`
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    #[command(flatten)]
    os_backend: OsBackendArgs,
}

pub(crate) fn run(args: &DaemonArgs) -> Result<CommandOutcome, CliError> {
    session::running_host()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DaemonError::Watch)?;
    let (command_sender, commands) = unbounded_channel();
    let (event_sender, events) = unbounded_channel();
    let is_of_cluster = args.source == SourceName::Kube;
    let profile = if is_of_cluster { Profile::Mcd } else { Profile::Native };
    let requests = RequestCounts::default();
    let setup = DaemonSetup {
        work_command: WorkCommand {
            arguments: [work::COMMAND.to_owned()]
                .into_iter()
                .chain(args.os_backend.arguments())
                .map(Into::into)
                .collect(),
            profile: args.profile.map_or(profile, Into::into),
        },
        // In a cluster the node is drained by then, and its pool waits for it: inhibitors are overruled.
        inhibitors: if is_of_cluster {
            InhibitorPolicy::OverruleAfterDeadline
        } else {
            InhibitorPolicy::Obey
        },
        source: args.source.to_string(),
        node: node(args),
        metrics: args.metrics.or(is_of_cluster.then_some(METRICS)),
        requests: is_of_cluster.then(|| requests.clone()),
        commands: command_sender,
        events,
    };
    runtime.block_on(async {
        tokio::select! {
            ended = daemon::run(setup) => ended,
            ended = run_source(args, requests, event_sender, commands) => Err(ended),
        }
    })?;
    Ok(CommandOutcome::Success)
}

/// Run the source, and return why it ended.
async fn run_source(
    args: &DaemonArgs,
    requests: RequestCounts,
    events: UnboundedSender<SourceEvent>,
    commands: UnboundedReceiver<SourceCommand>,
) -> DaemonError {
    match &args.source {
        SourceName::Directory(path) => match DirectorySource::new(path.clone(), events).run(commands).await {
            Ok(()) => DaemonError::SourceEnded,
            Err(error) => DaemonError::Watch(error),
        },
        SourceName::Kube => {
            KubeSource::new(cluster(args, requests), events).run(commands).await;
            DaemonError::SourceEnded
        }
    }
}

fn node(args: &DaemonArgs) -> String {
    args.node_name.clone().unwrap_or_else(boot::host_name)
}

fn cluster(args: &DaemonArgs, requests: RequestCounts) -> ClusterClient {
    let reader = ClusterIdentity::of(&args.kubeconfig, requests.clone());
    let is_other = |path: &&PathBuf| **path != args.kubeconfig;
    ClusterClient {
        node: node(args),
        namespace: args.namespace.clone(),
        writer: args
            .node_kubeconfig
            .as_ref()
            .filter(is_other)
            .map_or_else(|| reader.clone(), |path: &PathBuf| ClusterIdentity::of(Path::new(path), requests)),
        reader,
    }
}
