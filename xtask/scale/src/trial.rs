//! One trial: so many agents join, rest, follow a config and lose their API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flameholder::cluster::RequestCounts;
use flameholder::core::daemon::lifecycle::ConfigRef;
use kube::Client;
use testbed::control_plane::lone_server::LoneServer;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::agent::{FleetProtocol, SimulatedAgent};
use crate::operator::{ClusterOperator, node_name};
use crate::progress::FleetProgress;
use crate::server_metrics::{ServerFigures, resident_memory};

/// Configs, in the order in which the fleet gets them.
const CONFIGS: [&str; 2] = ["rendered-worker-a", "rendered-worker-b"];
/// Longest time of a part of the trial.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Time between the starts of two agents.
const ARRIVAL: Duration = Duration::from_millis(50);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// A trial to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialSetup {
    pub(crate) agents: usize,
    pub(crate) protocol: FleetProtocol,
    /// True for the first trial of the process. Later ones use the memory again that its agents had.
    pub(crate) is_first: bool,
    /// Time for which the fleet is watched at rest.
    pub(crate) rest: Duration,
    /// Time for which the API server is away.
    pub(crate) outage: Duration,
}

/// Figures of a part of the trial.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartFigures {
    pub(crate) seconds: f64,
    /// Requests of all agents.
    pub(crate) requests: u64,
    pub(crate) server: ServerFigures,
    /// Largest resident memory of the API server, in MiB.
    pub(crate) server_memory: f64,
}

/// Share of the agents at a time, in seconds from the beginning.
pub(crate) type ProgressCurve = Vec<(f64, f64)>;

/// Figures of a trial.
#[derive(Debug)]
pub(crate) struct TrialFigures {
    pub(crate) agents: usize,
    pub(crate) protocol: FleetProtocol,
    pub(crate) join: PartFigures,
    pub(crate) rest: PartFigures,
    pub(crate) update: PartFigures,
    pub(crate) recovery: PartFigures,
    /// Connections to the API server at rest, those of the cluster's components included.
    pub(crate) connections: u64,
    /// Resident memory of all agents, in MiB; `None` where the process has memory of agents before them.
    pub(crate) agents_memory: Option<f64>,
    /// Agents that are done with the new config.
    pub(crate) updated: ProgressCurve,
    /// Watches that are open again after the API server was away.
    pub(crate) watching: ProgressCurve,
}

/// A running fleet.
struct Fleet {
    agents: usize,
    client: Client,
    requests: RequestCounts,
    progress: Arc<FleetProgress>,
}

impl Fleet {
    fn requests(&self) -> u64 {
        self.requests.counted().iter().map(|(_, count)| count).sum()
    }

    /// Follow a part of the trial until `share` of the fleet is 1, and return its figures and its curve.
    async fn follow(
        &self,
        server: &LoneServer,
        before: (ServerFigures, u64),
        mut share: impl FnMut(&Self, ServerFigures) -> f64,
    ) -> Result<(PartFigures, ProgressCurve)> {
        let process = server.process().context("the API server is away")?;
        let (start, mut curve, mut memory) = (Instant::now(), Vec::new(), 0.0_f64);
        loop {
            let figures = ServerFigures::read(&self.client).await?;
            memory = memory.max(resident_memory(process)?);
            let (seconds, reached) = (start.elapsed().as_secs_f64(), share(self, figures));
            curve.push((seconds, reached.min(1.0)));
            if reached >= 1.0 {
                let requests = self.requests() - before.1;
                let server = figures.since(before.0);
                return Ok((PartFigures { seconds, requests, server, server_memory: memory }, curve));
            }
            ensure!(start.elapsed() < PATIENCE, "the fleet is at {reached:.3} after {seconds:.0} s");
            sleep(LOOK).await;
        }
    }

    async fn now(&self) -> Result<(ServerFigures, u64)> {
        Ok((ServerFigures::read(&self.client).await?, self.requests()))
    }

    #[expect(clippy::cast_precision_loss, reason = "a fleet has fewer agents than 2^52")]
    fn share_done(&self, config: &str) -> f64 {
        self.progress.done_with(config) as f64 / self.agents as f64
    }
}

/// Run a trial.
pub(crate) async fn run(setup: TrialSetup) -> Result<TrialFigures> {
    let TrialSetup { agents, protocol, is_first, rest, outage } = setup;
    let directory = tempfile::tempdir()?;
    let mut server = LoneServer::start(directory.path()).await;
    let operator = ClusterOperator::new(server.client().await, protocol);
    let [first, second] = CONFIGS;
    operator.create_pool(&testbed::fixture("rendered/01-base.json"), &CONFIGS).await?;
    operator.create_nodes(agents, first).await?;
    let serving = tokio::spawn(operator.clone().serve());
    let fleet = Fleet {
        agents,
        client: server.client().await,
        requests: RequestCounts::default(),
        progress: Arc::new(FleetProgress::of(agents)),
    };
    let memory_before = resident_memory(std::process::id())?;
    let before = fleet.now().await?;
    let running = start_agents(protocol, &server, &fleet);
    let (join, _) = fleet.follow(&server, before, |fleet, _| fleet.share_done(first)).await?;
    eprintln!("{agents} agents joined in {:.0} s", join.seconds);
    let before = fleet.now().await?;
    let end = Instant::now() + rest;
    let is_over = |_: &Fleet, _| if Instant::now() < end { 0.0 } else { 1.0 };
    let (rest, _) = fleet.follow(&server, before, is_over).await?;
    let connections = server.connections();
    let memory = resident_memory(std::process::id())? - memory_before;
    let agents_memory = is_first.then_some(memory);
    let before = fleet.now().await?;
    let rolling = tokio::spawn({
        let operator = operator.clone();
        async move { operator.roll_out(agents, second).await }
    });
    let (update, updated) = fleet.follow(&server, before, |fleet, _| fleet.share_done(second)).await?;
    rolling.await??;
    eprintln!("they were updated in {:.0} s", update.seconds);
    let (recovery, watching) = lose_server(&fleet, &mut server, outage).await?;
    eprintln!("they were back in {:.0} s", recovery.seconds);
    running.iter().chain([&serving]).for_each(JoinHandle::abort);
    Ok(TrialFigures {
        agents,
        protocol,
        join,
        rest,
        update,
        recovery,
        connections,
        agents_memory,
        updated,
        watching,
    })
}

/// Start the agents one after the other. On a machine that agents and API server share, the handshakes of all of them at once
/// would each take longer than they may.
fn start_agents(protocol: FleetProtocol, server: &LoneServer, fleet: &Fleet) -> Vec<JoinHandle<()>> {
    let start = |(number, turn): (usize, u32)| {
        let agent = agent(number, protocol, server, fleet);
        tokio::spawn(async move {
            sleep(ARRIVAL * turn).await;
            agent.await;
        })
    };
    (0..fleet.agents).zip(0..).map(start).collect()
}

/// Stop the API server for a time, and follow how the fleet comes back.
async fn lose_server(
    fleet: &Fleet,
    server: &mut LoneServer,
    outage: Duration,
) -> Result<(PartFigures, ProgressCurve)> {
    let watches = fleet.now().await?.0.watches;
    server.kill();
    sleep(outage).await;
    let requests = fleet.requests();
    server.start_again().await;
    let before = (ServerFigures::default(), requests);
    let reached = |fleet: &Fleet, figures: ServerFigures| {
        let share = figures.watches / watches;
        if fleet.progress.failing() == 0 { share } else { share.min(0.999) }
    };
    fleet.follow(server, before, reached).await
}

fn agent(
    number: usize,
    protocol: FleetProtocol,
    server: &LoneServer,
    fleet: &Fleet,
) -> impl Future<Output = ()> + use<> {
    let [first, _] = CONFIGS;
    let agent = SimulatedAgent {
        number,
        node: node_name(number),
        kubeconfig: server.kubeconfig(),
        protocol,
        requests: fleet.requests.clone(),
        progress: fleet.progress.clone(),
        booted: ConfigRef { config: first.into(), image: None, digest: None },
    };
    agent.run()
}
