//! Event loop of the daemon: follows the desired config of a source and publishes its phase.
//!
//! The state machine in [`lifecycle`](crate::core::daemon::lifecycle) makes every decision. This loop feeds
//! it events (source, inotify, timers, signals, finished work) and carries out its commands: work on the host
//! in a process of [`jobs::work`], drain and uncordon through the source, backoff by a timer.

mod error;
mod host_watch;
mod job_results;
pub mod jobs;
mod kubelet_health;
mod last_update;
mod managed_watch;
mod metrics;
mod metrics_server;
mod notify;
mod publication;
mod side_jobs;
mod signals;
mod source_events;
mod timers;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use error::DaemonError;
use host_watch::{HostEvent, HostWatch};
use jobs::job_deadline::JobDeadline;
use jobs::job_queue::{JobKind, JobQueue};
use jobs::work_job::WorkJob;
pub use jobs::work_process::WorkCommand;
use jobs::work_result::WorkResult;
use kubelet_health::{HostKubelet, SampleTriggers};
use last_update::LastUpdate;
use metrics::DaemonMetrics;
use side_jobs::grant_end::GrantEnd;
use side_jobs::image_pins::ImagePins;
use side_jobs::notifications::HookNotifications;
use side_jobs::slot_renewal::SlotRenewal;
use side_jobs::trust_sync::TrustSync;
use signals::DaemonSignals;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::cluster::RequestCounts;
use crate::core::daemon::daemon_report::{DaemonReport, SourceState};
use crate::core::daemon::lifecycle::{
    ConfigRef, DaemonCommand, DaemonEvent, DaemonPhase, DaemonProblem, Lifecycle, ProblemClass,
};
use crate::core::daemon::repair_limit::RepairLimit;
use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
use crate::host::Root;
use crate::host::facts::soft_reboots;
use crate::host::fs::lock::HostLock;
use crate::source::{FetchedConfig, SourceCommand, SourceEvent};
use crate::transaction::handover::other_agents::other_agents;
use crate::transaction::trust::kubelet_restart;

/// Time for running work to end when the daemon stops. An interrupted change is recovered at the next start.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// Configuration of the daemon, and its channels to the source.
pub struct DaemonSetup {
    pub work_command: WorkCommand,
    /// Longest time of one job.
    pub job_timeout: Duration,
    /// Source of the desired config, as the status names it.
    pub source: String,
    /// Node name, a metrics label.
    pub node: String,
    /// Listen address of the metrics server; `None` for no server.
    pub metrics: Option<SocketAddr>,
    /// Count of the requests to the cluster; `None` without one.
    pub requests: Option<RequestCounts>,
    /// True if the host is a node that is drained: by the cluster, or by the daemon itself.
    pub has_node: bool,
    /// Commands to the source.
    pub commands: UnboundedSender<SourceCommand>,
    /// Events of the source.
    pub events: UnboundedReceiver<SourceEvent>,
}

impl std::fmt::Debug for DaemonSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DaemonSetup").field("work_command", &self.work_command).finish_non_exhaustive()
    }
}

/// Run the daemon until SIGTERM or SIGINT.
pub async fn run(setup: DaemonSetup) -> Result<(), DaemonError> {
    let mut signals = DaemonSignals::install().map_err(DaemonError::Watch)?;
    let root = Root::open(Path::new("/")).map_err(DaemonError::Lock)?;
    let _lock = HostLock::take_of_daemon(&root).map_err(DaemonError::Lock)?;
    for agent in other_agents() {
        log::warn!("{agent}");
    }
    let mut watch = HostWatch::begin().map_err(DaemonError::Watch)?;
    let mut pulse = notify::watchdog_interval().map(timers::steady);
    let (done, mut finished) = unbounded_channel();
    let (pulled, mut pulls) = unbounded_channel();
    let metrics = Arc::new(DaemonMetrics::of_this_host(&setup.node, setup.requests.clone()));
    let samples = Arc::new(SampleTriggers::default());
    if let Some(address) = setup.metrics {
        tokio::spawn(metrics_server::serve(address, metrics.clone(), samples.clone()));
        tokio::spawn(kubelet_health::sample(metrics.clone(), samples.clone(), HostKubelet));
    }
    let (renewal, mut renewals) = SlotRenewal::new();
    let (told, mut notified) = unbounded_channel();
    let mut daemon = Daemon::new(&setup, root, [done, pulled, told], renewal, metrics, samples);
    let mut events = setup.events;
    daemon.begin();
    notify::ready();
    while !daemon.is_stopped() {
        let (timer, deadline, repair_due) = (daemon.timer, daemon.jobs.deadline(), daemon.repair_due());
        let side_job_due = daemon.side_job_time();
        tokio::select! {
            event = events.recv() => daemon.handle_source_event(event.ok_or(DaemonError::SourceEnded)?),
            Some(finished) = finished.recv() => daemon.finish_work(finished, &mut watch),
            Some(pulled) = pulls.recv() => daemon.finish_pulls(pulled),
            Some(next) = renewals.recv() => daemon.renewal.finish(next),
            Some(_) = notified.recv() => daemon.notifications.finish(),
            event = watch.next() => daemon.handle_host_event(event.map_err(DaemonError::Watch)?),
            () = timers::until(timer) => daemon.timer_expired(),
            () = timers::until(deadline) => daemon.jobs.expire(),
            () = timers::until(side_job_due) => daemon.side_job_due(),
            () = timers::until(repair_due) => daemon.repair_again(),
            () = timers::tick(pulse.as_mut()) => notify::watchdog_ping(),
            event = signals.next() => daemon.handle(event),
        }
    }
    Ok(())
}

/// State machine, running work and pending publications.
struct Daemon {
    root: Root,
    lifecycle: Lifecycle,
    source: SourceState,
    /// True if the host is a node that is drained.
    has_node: bool,
    jobs: JobQueue,
    trust: TrustSync,
    pins: ImagePins,
    grant_end: GrantEnd,
    renewal: SlotRenewal,
    notifications: HookNotifications,
    repairs: RepairLimit,
    irreconcilable: Arc<[IrreconcilableChange]>,
    /// Fixed point for the times of the repairs.
    started: Instant,
    commands: UnboundedSender<SourceCommand>,
    metrics: Arc<DaemonMetrics>,
    samples: Arc<SampleTriggers>,
    /// Numbers of the newest view and of the newest view that the source has published.
    views: [u64; 2],
    /// Commands that wait until the newest view is published.
    announced: Vec<DaemonCommand>,
    delivery: Option<(ConfigRef, Arc<FetchedConfig>)>,
    timer: Option<Instant>,
    inhibited_since: Option<Instant>,
    /// The report that was published last.
    reported: Option<DaemonReport>,
    update: LastUpdate,
    /// Request to retry that was taken last from the Node.
    retry_request: Option<String>,
    /// True until an observation has released the blocked target for it.
    releases_block: bool,
}

impl Daemon {
    fn new(
        setup: &DaemonSetup,
        root: Root,
        [done, pulled, told]: [UnboundedSender<WorkResult>; 3],
        renewal: SlotRenewal,
        metrics: Arc<DaemonMetrics>,
        samples: Arc<SampleTriggers>,
    ) -> Self {
        let deadline = JobDeadline::of(setup.job_timeout);
        Self {
            root,
            metrics,
            samples,
            lifecycle: Lifecycle::default(),
            source: SourceState { name: setup.source.clone(), ..SourceState::default() },
            has_node: setup.has_node,
            jobs: JobQueue::new(setup.work_command.clone(), deadline, done),
            trust: TrustSync::default(),
            pins: ImagePins::new(setup.work_command.clone(), pulled),
            grant_end: GrantEnd::new(soft_reboots::this_boot()),
            renewal,
            notifications: HookNotifications::new(setup.work_command.clone(), told),
            repairs: RepairLimit::default(),
            irreconcilable: Arc::default(),
            started: Instant::now(),
            commands: setup.commands.clone(),
            views: [0, 0],
            announced: Vec::new(),
            delivery: None,
            timer: None,
            inhibited_since: None,
            reported: None,
            update: LastUpdate::default(),
            retry_request: None,
            releases_block: false,
        }
    }

    fn begin(&mut self) {
        self.trust.set_restart(kubelet_restart::time_left(&self.root));
        self.publish_lifecycle();
        self.run_commands(self.lifecycle.phase.commands(0));
    }

    /// Returns true if the daemon stops and its work has ended or used up [`STOP_TIMEOUT`].
    fn is_stopped(&self) -> bool {
        self.lifecycle.phase == DaemonPhase::Stopping && (!self.jobs.is_running() || self.timer.is_none())
    }

    fn handle_host_event(&mut self, event: HostEvent) {
        let is_of_this_phase = match (event, &self.lifecycle.phase) {
            (HostEvent::FilesChanged, _) => return self.handle(DaemonEvent::FilesChanged),
            (HostEvent::OperatorRequest, _) => true,
            // Preparing an update to another config releases the block by itself.
            (HostEvent::BlockReleased, phase) => phase.is_resting(),
            (HostEvent::BootCheckChanged, phase) => {
                matches!(phase, DaemonPhase::CheckingBoot { .. } | DaemonPhase::RollingBack { .. })
            }
        };
        if is_of_this_phase {
            self.handle(DaemonEvent::StateChanged);
        }
    }

    fn timer_expired(&mut self) {
        self.timer = None;
        self.handle(DaemonEvent::TimerExpired);
    }

    fn handle(&mut self, event: DaemonEvent) {
        let before = self.lifecycle.clone();
        log::debug!("{}: {event:?}", before.phase.name());
        let (next, commands) = std::mem::take(&mut self.lifecycle).step(event);
        self.lifecycle = next;
        if self.lifecycle.phase != before.phase {
            self.timer = None;
            self.announced.clear();
        }
        self.metrics.record_step(&before, &self.lifecycle);
        if self.lifecycle != before && !self.lifecycle.is_same_wait(&before) {
            self.publish_lifecycle();
        }
        if self.lifecycle.phase.is_published_first() && !commands.contains(&DaemonCommand::Cancel) {
            self.announced.extend(commands);
            self.run_announced();
        } else {
            self.run_commands(commands);
        }
        if self.lifecycle.phase.name() != before.phase.name() {
            self.renewal.look(&self.root);
            self.begin_grant_end();
        }
    }

    /// Carry out the commands that waited for the newest view to be published.
    fn run_announced(&mut self) {
        let [newest, known] = self.views;
        if known < newest || self.announced.is_empty() {
            return;
        }
        if self.lifecycle.is_superseded() {
            return self.drop_announced();
        }
        let commands = std::mem::take(&mut self.announced);
        self.run_commands(commands);
    }

    fn run_commands(&mut self, commands: Vec<DaemonCommand>) {
        for command in commands {
            match command {
                DaemonCommand::Observe => {
                    self.work(WorkJob::Observe { releases_block: self.releases_block });
                }
                DaemonCommand::Verify => {
                    let held_back = self.repairs.held_back(self.started.elapsed());
                    self.work(WorkJob::Verify { held_back });
                }
                DaemonCommand::Prepare(desired) => {
                    let held_back = self.repairs.held_back(self.started.elapsed());
                    self.work_with(desired, |desired| WorkJob::Prepare { desired, held_back });
                }
                DaemonCommand::RequestGrant(desired) => self.work(WorkJob::RequestGrant(desired)),
                DaemonCommand::Apply(desired) => self.work_with(desired, WorkJob::Apply),
                DaemonCommand::Unlock(desired) => self.work(WorkJob::Unlock(desired)),
                DaemonCommand::Reboot(desired) => {
                    let since = *self.inhibited_since.get_or_insert_with(Instant::now);
                    let waited = since.elapsed();
                    self.work(WorkJob::Reboot { target: desired, waited });
                }
                DaemonCommand::Fetch(desired) => self.fetch(desired),
                DaemonCommand::Cancel => self.cancel(),
                DaemonCommand::Wait(delay) => self.timer = Some(Instant::now() + timers::duration_of(delay)),
                // The published view carries these requests: the source acts on its phase.
                DaemonCommand::Drain(_) | DaemonCommand::Uncordon => {}
            }
        }
    }

    /// Fetch a desired config from the source. The current config is read from disk: the cluster may have
    /// deleted it.
    fn fetch(&mut self, desired: ConfigRef) {
        let current = self.lifecycle.current.as_ref().is_some_and(|current| current.is_same(&desired));
        if current {
            self.delivery = Some((desired, Arc::default()));
            return self.handle(DaemonEvent::Fetched);
        }
        drop(self.commands.send(SourceCommand::Fetch(desired)));
    }

    fn work_with(&mut self, desired: ConfigRef, job: impl FnOnce(ConfigRef) -> WorkJob) {
        match &self.delivery {
            Some((delivered, _)) if *delivered == desired => self.work(job(desired)),
            _ => self.handle(DaemonEvent::Failed(DaemonProblem {
                class: ProblemClass::Bug,
                reason: format!("bug: config {} was not kept after it was fetched", desired.config),
            })),
        }
    }

    fn work(&mut self, job: WorkJob) {
        let delivery = match job {
            WorkJob::Prepare { .. } | WorkJob::Apply(_) => {
                self.delivery.as_ref().map(|(_, delivery)| delivery.clone())
            }
            _ => None,
        };
        if let Err(problem) = self.jobs.begin(JobKind::Lifecycle, (job, delivery)) {
            self.handle(DaemonEvent::Failed(problem));
        }
    }

    /// Drop the commands that wait for publication: the desired config changed, or the daemon stops.
    fn drop_announced(&mut self) {
        self.announced.clear();
        self.cancelled();
    }

    fn cancelled(&mut self) {
        let reason = "cancelled before the change began".to_owned();
        self.handle(DaemonEvent::Failed(DaemonProblem { class: ProblemClass::Interrupted, reason }));
    }

    fn cancel(&mut self) {
        if !self.announced.is_empty() {
            return self.drop_announced();
        }
        let is_stopping = self.lifecycle.phase == DaemonPhase::Stopping;
        let is_dropped = self.jobs.cancel(is_stopping);
        if is_stopping {
            self.pins.cancel();
            self.notifications.cancel();
            notify::stopping(STOP_TIMEOUT);
            self.timer = self.jobs.is_running().then(|| Instant::now() + STOP_TIMEOUT);
        } else if is_dropped {
            self.cancelled();
        }
    }
}
