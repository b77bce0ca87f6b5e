//! `flameholder daemon`: connect a source of the desired config with the daemon and run both
//! (`flameholder-daemon.service`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::future::OptionFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch::{self, Receiver};

use crate::cli::artifact::WorkerClient;
use crate::cli::os_backend::OsBackendArgs;
use crate::cli::server_access::ServerAccessArgs;
use crate::cli::systemd::work;
use crate::cli::{CliError, CommandOutcome, ProfileName, session};
use crate::cluster::{ClusterClient, ClusterIdentity, DrainClient, RequestCounts};
use crate::core::config::settings::Settings;
use crate::core::config::settings::drain::DrainSettings;
use crate::core::config::settings::metrics::MetricsAddress;
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::config::settings::source::{PoolChoice, SourceName};
use crate::core::values::causes::chain;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::KUBELET_KUBECONFIG;
use crate::core::values::profile::Profile;
use crate::daemon;
use crate::daemon::{DaemonError, DaemonSetup, WorkCommand};
use crate::host::Root;
use crate::host::facts::boot;
use crate::https::DocumentRequest;
use crate::source::artifact::ArtifactSource;
use crate::source::config_server::ConfigServerSource;
use crate::source::contents_fetcher::ContentsFetcher;
use crate::source::directory::DirectorySource;
use crate::source::kube::KubeSource;
use crate::source::kube_pool::PoolSource;
use crate::source::node_reporter::{NodeReporter, ReadLabels};
use crate::source::own_drain::OwnDrain;
use crate::source::{SourceCommand, SourceEvent};
use crate::transaction::state::settings;

/// Namespace of the machine-config-daemon, in which its events are.
const NAMESPACE: &str = "openshift-machine-config-operator";

/// Address at which the cluster's monitoring scrapes the machine-config-daemon, through kube-rbac-proxy.
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8797);

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Source of the desired config: `kube`; `dir:PATH`, a file or a directory of files; a document on a server, such as
    /// `https://HOST:22623/config/worker`; or an artifact in a registry, `oci://REGISTRY/REPOSITORY:TAG`
    #[arg(long, value_name = "SOURCE", env = "FLAMEHOLDER_SOURCE")]
    source: Option<SourceName>,
    /// With the source `kube`, in a cluster without the machine-config-operator: follow the config of this MachineConfigPool, or
    /// with `BY-LABELS` of the one that selects the labels of this host's Node
    #[arg(long, value_name = "NAME", env = "FLAMEHOLDER_POOL")]
    pool: Option<PoolChoice>,
    /// Kubeconfig for reading configs and policies and for writing the MachineConfigNode; default:
    /// /var/lib/kubelet/kubeconfig
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig for watching and annotating the Node and for sending events; default: that of --kubeconfig
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_NODE_KUBECONFIG")]
    node_kubeconfig: Option<PathBuf>,
    /// Name of this host's Node; default: the host name
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Namespace of the events about this Node; default: openshift-machine-config-operator
    #[arg(long, value_name = "NAME", env = "FLAMEHOLDER_NAMESPACE")]
    namespace: Option<String>,
    /// Address to serve metrics at, or `off`; default: 127.0.0.1:8797 with the source `kube`, no metrics otherwise
    #[arg(long, value_name = "ADDRESS", env = "FLAMEHOLDER_METRICS")]
    metrics: Option<MetricsAddress>,
    /// Rules that decide which changes can be applied; default: `mcd` with the source `kube`, else `native`
    #[arg(long, value_enum, env = "FLAMEHOLDER_PROFILE")]
    profile: Option<ProfileName>,
    #[command(flatten)]
    access: ServerAccessArgs,
    /// Mean time in seconds between two requests to the server of a URL or the registry of an artifact; default: 300
    #[arg(long, value_name = "SECONDS", env = "FLAMEHOLDER_POLL_INTERVAL")]
    poll_interval: Option<NonZeroU32>,
    #[command(flatten)]
    os_backend: OsBackendArgs,
}

/// Options of the daemon: from the command line or the environment, else from the settings, else the defaults.
#[derive(Debug)]
struct DaemonOptions {
    source: SourceName,
    pool: Option<PoolChoice>,
    kubeconfig: PathBuf,
    node_kubeconfig: PathBuf,
    node: String,
    namespace: String,
    metrics: Option<SocketAddr>,
    profile: Profile,
    access: ServerAccess,
    poll_interval: Duration,
    job_timeout: Duration,
    /// Rules of the drain by the daemon itself; `None` if it does not drain.
    own_drain: Option<DrainSettings>,
    /// True if the state is reported on the Node, without the machine-config-operator.
    reports: bool,
}

impl DaemonOptions {
    fn of(args: &DaemonArgs, settings: Settings) -> Result<Self, CliError> {
        let Settings { source, metrics, limits, drain, .. } = settings;
        let poll_interval = args.poll_interval.map(|seconds| Duration::from_secs(seconds.get().into()));
        let poll_interval = poll_interval.unwrap_or_else(|| source.poll_interval());
        let name = args.source.clone().or(source.desired).ok_or_else(|| {
            let reason = "no source of the desired config: name one with FLAMEHOLDER_SOURCE in \
                /etc/flameholder/daemon.env, with `desired` in the table [source] of a fragment, or with --source";
            CliError::Usage(reason.to_owned())
        })?;
        let pool = args.pool.clone().or(source.pool).filter(|_| name == SourceName::Kube);
        let is_in_cluster = name == SourceName::Kube && pool.is_none();
        let file = |argument: &Option<PathBuf>, setting: Option<ManagedPath>| {
            argument.clone().or_else(|| setting.map(|path| path.as_str().into()))
        };
        let (kubeconfig, node_kubeconfig) =
            (file(&args.kubeconfig, source.kubeconfig), file(&args.node_kubeconfig, source.node_kubeconfig));
        let own_drain = Some(drain).filter(|drain| drain.is_enabled() && !is_in_cluster);
        // A host with another source is a node if it is told of its cluster.
        let is_node =
            pool.is_some() || own_drain.is_some() || kubeconfig.is_some() || node_kubeconfig.is_some();
        let kubeconfig = kubeconfig.unwrap_or_else(|| KUBELET_KUBECONFIG.into());
        let default_profile = if is_in_cluster { Profile::Mcd } else { Profile::Native };
        let metrics = args.metrics.or(metrics.address).map(MetricsAddress::listener);
        Ok(Self {
            poll_interval,
            access: args.access.or(source.access),
            node_kubeconfig: node_kubeconfig.unwrap_or_else(|| kubeconfig.clone()),
            kubeconfig,
            node: args.node_name.clone().or(source.node_name).unwrap_or_else(boot::host_name),
            namespace: args.namespace.clone().or(source.namespace).unwrap_or_else(|| NAMESPACE.to_owned()),
            metrics: metrics.unwrap_or_else(|| is_in_cluster.then_some(METRICS)),
            profile: args.profile.map(Into::into).or(source.profile).unwrap_or(default_profile),
            pool,
            job_timeout: limits.job_timeout(),
            own_drain,
            reports: is_node && !is_in_cluster,
            source: name,
        })
    }

    /// Return true if the host is a node of the machine-config-operator.
    fn is_in_cluster(&self) -> bool {
        self.source == SourceName::Kube && self.pool.is_none()
    }

    fn cluster(&self, requests: RequestCounts) -> ClusterClient {
        let token = self.access.token_file.as_deref();
        let reader = ClusterIdentity::of(&self.kubeconfig, requests.clone()).with_token(token);
        let is_same = self.node_kubeconfig == self.kubeconfig && token.is_none();
        let writer =
            if is_same { reader.clone() } else { ClusterIdentity::of(&self.node_kubeconfig, requests) };
        ClusterClient { node: self.node.clone(), namespace: self.namespace.clone(), writer, reader }
    }

    /// Return the client that reads this host's Node and reports on it. A token is for the source: where that is no cluster, it is
    /// not sent to one.
    fn node_client(&self, requests: RequestCounts) -> ClusterClient {
        if self.source == SourceName::Kube {
            return self.cluster(requests);
        }
        let writer = ClusterIdentity::of(&self.node_kubeconfig, requests);
        ClusterClient {
            node: self.node.clone(),
            namespace: self.namespace.clone(),
            reader: writer.clone(),
            writer,
        }
    }
}

pub(crate) fn run(args: &DaemonArgs) -> Result<CommandOutcome, CliError> {
    let root = session::running_host()?.root;
    let settings = settings_of(&root, args)?;
    let options = DaemonOptions::of(args, settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DaemonError::Watch)?;
    let (command_sender, commands) = unbounded_channel();
    let (event_sender, events) = unbounded_channel();
    let requests = RequestCounts::default();
    let arguments = [work::COMMAND.to_owned()].into_iter().chain(args.os_backend.arguments());
    let setup = DaemonSetup {
        work_command: WorkCommand {
            arguments: arguments.map(Into::into).collect(),
            profile: options.profile,
            is_in_cluster: options.is_in_cluster(),
        },
        job_timeout: options.job_timeout,
        source: options.source.to_string(),
        node: options.node.clone(),
        metrics: options.metrics,
        requests: (options.source == SourceName::Kube).then(|| requests.clone()),
        has_node: options.is_in_cluster() || options.own_drain.is_some(),
        commands: command_sender,
        events,
    };
    runtime.block_on(async {
        tokio::select! {
            ended = daemon::run(setup) => ended,
            ended = run_with_drain(&options, root, requests, event_sender, commands) => Err(ended),
        }
    })?;
    Ok(CommandOutcome::Success)
}

/// Load the settings. Where they cannot be used, a source that is named elsewhere can still bring a config that mends
/// them: the daemon goes on with the defaults, and its jobs report the fault. Not so with a server or an artifact, which the
/// defaults might trust though the settings do not.
fn settings_of(root: &Root, args: &DaemonArgs) -> Result<Settings, CliError> {
    match settings::settings(root) {
        Err(error) if matches!(args.source, Some(SourceName::Kube | SourceName::Directory(_))) => {
            log::warn!(
                "going on with the default settings until the daemon is started again: {error}",
                error = chain(&error)
            );
            Ok(Settings::default())
        }
        loaded => Ok(loaded?),
    }
}

/// Run the source, and what stands for the cluster's drain controller where there is none; return why they ended.
async fn run_with_drain(
    options: &DaemonOptions,
    root: Root,
    requests: RequestCounts,
    events: UnboundedSender<SourceEvent>,
    commands: UnboundedReceiver<SourceCommand>,
) -> DaemonError {
    if options.is_in_cluster() {
        let labels = watch::channel(None).1;
        return run_source(options, root, requests, events, (commands, labels)).await;
    }
    let identity = ClusterIdentity::of(&options.node_kubeconfig, requests.clone()).keeping_refusals();
    let client = DrainClient { identity, node: options.node.clone() };
    let ((source, source_commands), (reporter, states)) = (unbounded_channel(), unbounded_channel());
    let (rules, is_node) = (options.own_drain, options.reports);
    let drain = OwnDrain { client, rules, is_node, events: events.clone(), source, reporter };
    let reporter = NodeReporter::new(options.node_client(requests.clone()), events.clone());
    let labels = reporter.labels();
    // Without a reporter, no states are kept.
    let reporting = OptionFuture::from(options.reports.then(|| reporter.run(states)));
    tokio::select! {
        () = drain.run(commands) => DaemonError::SourceEnded,
        Some(()) = reporting => DaemonError::SourceEnded,
        ended = run_source(options, root, requests, events, (source_commands, labels)) => ended,
    }
}

/// Run the source, and return why it ended.
async fn run_source(
    options: &DaemonOptions,
    root: Root,
    requests: RequestCounts,
    events: UnboundedSender<SourceEvent>,
    (commands, labels): (UnboundedReceiver<SourceCommand>, Receiver<ReadLabels>),
) -> DaemonError {
    match &options.source {
        SourceName::Directory(path) => {
            let source = DirectorySource::new(path.clone(), ContentsFetcher::keeping(root), events);
            match source.run(commands).await {
                Ok(()) => DaemonError::SourceEnded,
                Err(error) => DaemonError::Watch(error),
            }
        }
        SourceName::Server(url) => {
            let request = DocumentRequest {
                url: url.clone(),
                access: options.access.clone(),
                limit: DocumentRequest::LIMIT,
            };
            let contents = ContentsFetcher::keeping(root);
            ConfigServerSource::new(request, options.poll_interval, contents, events).run(commands).await;
            DaemonError::SourceEnded
        }
        SourceName::Artifact(artifact) => {
            let (artifact, client) = (artifact.clone(), Arc::new(WorkerClient));
            let contents = ContentsFetcher::keeping(root);
            let source = ArtifactSource::new(artifact, client, options.poll_interval, contents, events);
            source.run(commands).await;
            DaemonError::SourceEnded
        }
        SourceName::Kube => {
            let cluster = options.cluster(requests);
            match &options.pool {
                Some(pool) => PoolSource::new(cluster, pool.clone(), labels, events).run(commands).await,
                None => KubeSource::new(cluster, events).run(commands).await,
            }
            DaemonError::SourceEnded
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::core::config::settings::FragmentFile;

    fn options(arguments: &[&str], fragment: &str) -> Result<DaemonOptions, CliError> {
        let command = DaemonArgs::augment_args(Command::new("daemon"));
        let matches = command.try_get_matches_from([&["daemon"], arguments].concat()).unwrap();
        let path = ManagedPath::constant("/etc/flameholder/config.d/a.toml");
        let fragments = [FragmentFile { path, bytes: fragment.as_bytes().to_vec() }];
        DaemonOptions::of(&DaemonArgs::from_arg_matches(&matches).unwrap(), Settings::of(&fragments).unwrap())
    }

    #[test]
    fn options_are_taken_from_the_command_line_before_settings_and_defaults() {
        let fragment = "[source]\ndesired = \"kube\"\nkubeconfig = \"/etc/a\"\nnode-name = \"a\"\n\
            namespace = \"b\"\nprofile = \"native\"\n[metrics]\naddress = \"127.0.0.1:1\"\n[limits]\njob-timeout = 700\n";
        let set = options(&[], fragment).unwrap();
        assert_eq!((set.source.to_string().as_str(), set.profile), ("kube", Profile::Native));
        assert_eq!((set.kubeconfig.to_str(), set.node_kubeconfig.to_str()), (Some("/etc/a"), Some("/etc/a")));
        assert_eq!((set.node.as_str(), set.namespace.as_str()), ("a", "b"));
        assert_eq!((set.metrics, set.job_timeout.as_secs()), ("127.0.0.1:1".parse().ok(), 700));
        let given = ["--source", "dir:c", "--kubeconfig", "d", "--metrics", "off", "--profile", "mcd"];
        let given = options(&given, fragment).unwrap();
        assert_eq!((given.source.to_string().as_str(), given.profile), ("dir:c", Profile::Mcd));
        assert_eq!((given.kubeconfig.to_str(), given.node.as_str(), given.metrics), (Some("d"), "a", None));
    }

    #[test]
    fn defaults_follow_the_source() {
        let node = options(&["--source", "kube"], "").unwrap();
        assert_eq!((node.metrics, node.profile), (Some(METRICS), Profile::Mcd));
        assert_eq!(node.node_kubeconfig.to_str(), Some(KUBELET_KUBECONFIG));
        let host = options(&["--source", "dir:/a"], "").unwrap();
        assert_eq!((host.metrics, host.profile), (None, Profile::Native));
    }

    #[test]
    fn missing_source_is_wrong_usage_that_names_each_place_for_it() {
        let error = options(&[], "").unwrap_err().to_string();
        for place in ["FLAMEHOLDER_SOURCE", "daemon.env", "[source]", "--source"] {
            assert!(error.contains(place), "{error}");
        }
    }
}
