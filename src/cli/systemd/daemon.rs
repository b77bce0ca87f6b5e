//! `flameholder daemon`: what `flameholder-daemon.service` runs for as long as the host lives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::cli::os_backend::OsBackend;
use crate::cli::session;
use crate::cli::source_name::SourceName;
use crate::cli::systemd::work;
use crate::cli::{CliError, ProfileName, Verdict};
use crate::cluster::{Cluster, Identity};
use crate::core::values::profile::Profile;
use crate::daemon;
use crate::daemon::{DaemonError, Setup, Workshop};
use crate::host::facts::boot;
use crate::host::systemd::reboot_port::InhibitorPolicy;
use crate::source::directory::Directory;
use crate::source::kube::Kube;
use crate::source::{Order, Said};

/// The kubelet's own: who may write to the node.
const KUBELET: &str = "/var/lib/kubelet/kubeconfig";

/// Where the cluster's monitoring finds the machine-config-daemon's.
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8797);

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Where it is said what this host is to be: `kube`, or `dir:PATH`, a file or a directory of files
    #[arg(long, value_name = "SOURCE", env = "FLAMEHOLDER_SOURCE")]
    source: SourceName,
    /// How the cluster is read, and conditions are written
    #[arg(long, value_name = "FILE", default_value = KUBELET, env = "FLAMEHOLDER_KUBECONFIG")]
    kubeconfig: PathBuf,
    /// How the node is read and written; as the rest where it is not given
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_NODE_KUBECONFIG")]
    node_kubeconfig: Option<PathBuf>,
    /// The node that this host is; its host name where it is not given
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// The namespace that events go to
    #[arg(long, value_name = "NAME", default_value = "openshift-machine-config-operator")]
    namespace: String,
    /// Where metrics are read from; 127.0.0.1:8797 for a cluster, else nowhere
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Whose verdicts apply; `mcd` for a cluster, else `native`
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    #[command(flatten)]
    os_backend: OsBackend,
}

pub(crate) fn run(args: &DaemonArgs) -> Result<Verdict, CliError> {
    session::booted()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DaemonError::Watch)?;
    let (orders, ordered) = unbounded_channel();
    let (says, said) = unbounded_channel();
    let is_of_cluster = args.source == SourceName::Kube;
    let profile = if is_of_cluster { Profile::Mcd } else { Profile::Native };
    let setup = Setup {
        workshop: Workshop {
            arguments: [work::VERB.to_owned()]
                .into_iter()
                .chain(args.os_backend.arguments())
                .map(Into::into)
                .collect(),
            profile: args.profile.map_or(profile, Into::into),
        },
        // In a cluster the workload has left by then, and whoever drained the node waits for it.
        insist: if is_of_cluster { InhibitorPolicy::OverruleAfterDeadline } else { InhibitorPolicy::Obey },
        node: node(args),
        metrics: args.metrics.or(is_of_cluster.then_some(METRICS)),
        orders,
        said,
    };
    runtime.block_on(async {
        tokio::select! {
            ended = daemon::run(setup) => ended,
            ended = deliver(args, says, ordered) => Err(ended),
        }
    })?;
    Ok(Verdict::Fine)
}

/// Runs the source; why it ended.
async fn deliver(
    args: &DaemonArgs,
    says: UnboundedSender<Said>,
    orders: UnboundedReceiver<Order>,
) -> DaemonError {
    match &args.source {
        SourceName::Directory(path) => match Directory::new(path.clone(), says).run(orders).await {
            Ok(()) => DaemonError::SourceEnded,
            Err(error) => DaemonError::Watch(error),
        },
        SourceName::Kube => {
            Kube::new(cluster(args), says).run(orders).await;
            DaemonError::SourceEnded
        }
    }
}

fn node(args: &DaemonArgs) -> String {
    args.node_name.clone().unwrap_or_else(boot::host_name)
}

fn cluster(args: &DaemonArgs) -> Cluster {
    let reader = Identity::of(&args.kubeconfig);
    let is_other = |path: &&PathBuf| **path != args.kubeconfig;
    Cluster {
        node: node(args),
        namespace: args.namespace.clone(),
        writer: args
            .node_kubeconfig
            .as_ref()
            .filter(is_other)
            .map_or_else(|| reader.clone(), |path: &PathBuf| Identity::of(Path::new(path))),
        reader,
    }
}
