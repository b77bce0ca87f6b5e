//! Simulated agent: the product's own source, state machine and publication, over a host that carries out each request at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flameholder::cluster::{ClusterClient, ClusterIdentity, DrainClient, RequestCounts};
use flameholder::core::config::settings::source::PoolChoice;
use flameholder::core::daemon::lifecycle::{
    ConfigRef, DaemonCommand, DaemonDelay, DaemonEvent, DaemonPhase, HostObservation, Lifecycle,
};
use flameholder::core::plan::remaining_work::RemainingWork;
use flameholder::source::kube::KubeSource;
use flameholder::source::kube_pool::PoolSource;
use flameholder::source::node_reporter::NodeReporter;
use flameholder::source::own_drain::OwnDrain;
use flameholder::source::{LifecycleView, SourceCommand, SourceEvent};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

use crate::progress::FleetProgress;

/// Time that a host takes to boot. Short: it only matters that its agent is a new one afterwards.
const BOOT: Duration = Duration::from_secs(5);
/// Delay of a wait whose end the simulated host does not need.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Protocol between the agents and the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FleetProtocol {
    /// Annotations of the Node, its `MachineConfigNode` and events, as with the machine-config-operator.
    Operator,
    /// The pool names the config, and the Node gets a report.
    Pool,
}

impl FleetProtocol {
    /// Return the largest number of an agent's connections: one per identity, and one that is made while the last one ends.
    pub(crate) fn connections(self) -> u64 {
        match self {
            Self::Operator => 3,
            Self::Pool => 2,
        }
    }
}

/// Agent of one host.
#[derive(Debug)]
pub(crate) struct SimulatedAgent {
    pub(crate) number: usize,
    pub(crate) node: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) protocol: FleetProtocol,
    pub(crate) requests: RequestCounts,
    pub(crate) progress: Arc<FleetProgress>,
    /// Config that the host has booted.
    pub(crate) booted: ConfigRef,
}

impl SimulatedAgent {
    /// Run until the program ends: one daemon after the other, as the host reboots.
    pub(crate) async fn run(mut self) {
        loop {
            let (events, reports) = unbounded_channel();
            let (commands, orders) = unbounded_channel();
            let reader = ClusterIdentity::of(&self.kubeconfig, self.requests.clone());
            let writer = match self.protocol {
                FleetProtocol::Operator => ClusterIdentity::of(&self.kubeconfig, self.requests.clone()),
                FleetProtocol::Pool => reader.clone(),
            };
            let cluster =
                ClusterClient { node: self.node.clone(), namespace: "default".to_owned(), reader, writer };
            let next = tokio::select! {
                () = run_source(self.protocol, cluster, events, orders) => None,
                target = SimulatedDaemon::run(&self, commands, reports) => target,
            };
            let Some(target) = next else { return };
            self.booted = target;
            sleep(BOOT).await;
        }
    }
}

async fn run_source(
    protocol: FleetProtocol,
    cluster: ClusterClient,
    events: UnboundedSender<SourceEvent>,
    orders: UnboundedReceiver<SourceCommand>,
) {
    match protocol {
        FleetProtocol::Operator => KubeSource::new(cluster, events).run(orders).await,
        FleetProtocol::Pool => {
            let client = DrainClient { identity: cluster.reader.clone(), node: cluster.node.clone() };
            let ((source, commands), (reporter, states)) = (unbounded_channel(), unbounded_channel());
            let drain =
                OwnDrain { client, rules: None, is_node: true, events: events.clone(), source, reporter };
            let reporter = NodeReporter::new(cluster.clone(), events.clone());
            let source = PoolSource::new(cluster, PoolChoice::ByLabels, reporter.labels(), events);
            tokio::select! {
                () = drain.run(orders) => {}
                () = reporter.run(states) => {}
                () = source.run(commands) => {}
            }
        }
    }
}

/// Daemon of the agent: what `flameholder daemon` does with its state machine, without a host.
struct SimulatedDaemon<'a> {
    agent: &'a SimulatedAgent,
    commands: UnboundedSender<SourceCommand>,
    lifecycle: Lifecycle,
    /// Number of the newest view, and of the newest that is published.
    views: [u64; 2],
    /// Commands that wait for the newest view to be published.
    announced: Vec<DaemonCommand>,
    /// Results that the state machine has not seen yet.
    results: VecDeque<DaemonEvent>,
    timer: Option<Instant>,
}

impl<'a> SimulatedDaemon<'a> {
    /// Run until the host reboots, and return the config that it boots; `None` if the source has ended.
    async fn run(
        agent: &'a SimulatedAgent,
        commands: UnboundedSender<SourceCommand>,
        mut reports: UnboundedReceiver<SourceEvent>,
    ) -> Option<ConfigRef> {
        let lifecycle = Lifecycle::default();
        let (announced, results) = (Vec::new(), VecDeque::new());
        let mut daemon = Self { agent, commands, lifecycle, views: [0, 0], announced, results, timer: None };
        daemon.publish();
        daemon.carry_out(daemon.lifecycle.phase.commands(0));
        loop {
            daemon.take_results();
            if let DaemonPhase::ShuttingDown { target } = &daemon.lifecycle.phase
                && daemon.is_published()
            {
                return Some(target.clone());
            }
            let timer = daemon.timer.unwrap_or_else(|| Instant::now() + NEVER);
            tokio::select! {
                report = reports.recv() => daemon.take(report?),
                () = sleep_until(timer) => daemon.results.push_back(DaemonEvent::TimerExpired),
            }
        }
    }

    fn is_published(&self) -> bool {
        let [newest, published] = self.views;
        published >= newest
    }

    fn publish(&mut self) {
        let [newest, _] = &mut self.views;
        *newest += 1;
        let view = LifecycleView {
            number: *newest,
            lifecycle: self.lifecycle.clone(),
            irreconcilable: Arc::default(),
        };
        // A source that has ended ends the daemon.
        drop(self.commands.send(SourceCommand::Publish(Box::new(view))));
        let is_done = self.lifecycle.phase == DaemonPhase::Done;
        let done = self.lifecycle.current.as_ref().filter(|_| is_done);
        self.agent.progress.set_done(self.agent.number, done.map(|done| done.config.as_str()));
    }

    fn take(&mut self, report: SourceEvent) {
        match report {
            SourceEvent::DesiredChanged(desired) => {
                self.results.push_back(DaemonEvent::DesiredChanged(desired));
            }
            SourceEvent::NoDesiredConfig(reason) => {
                self.results.push_back(DaemonEvent::NoDesiredConfig(reason));
            }
            SourceEvent::Published(number) => {
                let [_, published] = &mut self.views;
                *published = (*published).max(number);
                if self.is_published() {
                    let announced = std::mem::take(&mut self.announced);
                    self.carry_out(announced);
                }
            }
            SourceEvent::Fetched(desired, fetched) => {
                let is_awaited = self.lifecycle.phase == DaemonPhase::Fetching { target: desired };
                let result = fetched
                    .map_or_else(|failure| DaemonEvent::Failed(failure.problem), |_| DaemonEvent::Fetched);
                self.results.extend(is_awaited.then_some(result));
            }
            SourceEvent::Drained(desired) => {
                let is_awaited = self.lifecycle.phase.target().is_some_and(|target| target.is_same(&desired));
                self.results.extend(is_awaited.then_some(DaemonEvent::Drained));
            }
            SourceEvent::Uncordoned => self.results.push_back(DaemonEvent::Uncordoned),
            SourceEvent::SourceError(error) => {
                self.agent.progress.set_failing(self.agent.number, error.is_some());
            }
            _ => {}
        }
    }

    fn take_results(&mut self) {
        while let Some(event) = self.results.pop_front() {
            let before = self.lifecycle.clone();
            let (next, commands) = std::mem::take(&mut self.lifecycle).step(event);
            self.lifecycle = next;
            if self.lifecycle.phase != before.phase {
                self.timer = None;
                self.announced.clear();
            }
            if self.lifecycle != before {
                self.publish();
            }
            if self.lifecycle.phase.is_published_first() {
                self.announced.extend(commands);
            } else {
                self.carry_out(commands);
            }
        }
    }

    fn carry_out(&mut self, commands: Vec<DaemonCommand>) {
        for command in commands {
            match command {
                DaemonCommand::Observe => {
                    let current = Some(self.agent.booted.clone());
                    let observation = HostObservation { current, ..HostObservation::default() };
                    self.results.push_back(DaemonEvent::Observed(observation));
                }
                DaemonCommand::Fetch(desired) => drop(self.commands.send(SourceCommand::Fetch(desired))),
                DaemonCommand::Prepare(_) => {
                    self.results.push_back(DaemonEvent::Prepared(RemainingWork::Reboot(())));
                }
                DaemonCommand::RequestGrant(_) => self.results.push_back(DaemonEvent::Granted),
                DaemonCommand::Apply(_) => self.results.push_back(DaemonEvent::Applied),
                DaemonCommand::Unlock(_) => self.results.push_back(DaemonEvent::Unlocked),
                DaemonCommand::Reboot(_) => self.results.push_back(DaemonEvent::RebootAccepted),
                DaemonCommand::Verify => self.results.push_back(DaemonEvent::Verified),
                DaemonCommand::Wait(DaemonDelay::Backoff(class, failures)) => {
                    self.timer = Some(Instant::now() + class.backoff(failures, 500));
                }
                // The published view carries these requests, and nothing here takes long enough for the other delays.
                DaemonCommand::Drain(_)
                | DaemonCommand::Uncordon
                | DaemonCommand::Cancel
                | DaemonCommand::Wait(_) => {}
            }
        }
    }
}
