//! The agent for as long as the host lives: what a source wants is made so, and whoever watches is told. What is decided
//! is decided in [`lifecycle`](crate::core::daemon::lifecycle); here events reach it, and commands leave it for [`work`].

mod metrics;
mod news;
mod notify;
mod problem;
mod process;
mod scrape;
mod signals;
pub mod work;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::lifecycle::{
    ConfigRef, DaemonCommand, DaemonDelay, DaemonEvent, DaemonPhase, DaemonProblem, Lifecycle, ProblemClass,
};
use crate::core::daemon::message_ids;
use crate::host::facts::boot;
use crate::host::systemd::reboot_port::InhibitorPolicy;
use crate::source::{Delivery, Order, Said, View};

use metrics::Metrics;
use news::{HostNews, HostWatch};
use process::AtWork;
pub use process::Workshop;
use signals::Signals;
use work::{Finished, Job};

/// How long a drain may take before people are told (the reference's).
const DRAIN: Duration = Duration::from_secs(3600);
/// How long the end of one may take (the reference's).
const UNCORDON: Duration = Duration::from_secs(600);
/// How long a host may take to go down before it is looked at again.
const REBOOT: Duration = Duration::from_secs(1800);
/// How long whoever blocks the reboot is waited for in all.
const BLOCKED: Duration = Duration::from_secs(600);
/// How long what is under way has to end when the daemon is to end. What does not is settled by the next one.
const FAREWELL: Duration = Duration::from_secs(4);

/// What the daemon works with.
pub struct Setup {
    /// How what is done to the host is started.
    pub workshop: Workshop,
    /// Whether those who block a reboot are overruled in the end.
    pub insist: InhibitorPolicy,
    /// What the host is called, in metrics.
    pub node: String,
    /// Where metrics are read from; nowhere without it.
    pub metrics: Option<SocketAddr>,
    /// Where wishes are asked from.
    pub orders: UnboundedSender<Order>,
    /// Where they come from.
    pub said: UnboundedReceiver<Said>,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("workshop", &self.workshop).finish_non_exhaustive()
    }
}

/// Why the daemon cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Something that the kernel has to give it.
    #[error(
        "watching for changes of this host and for signals; where that is for want of watches, raise fs.inotify.max_user_instances and fs.inotify.max_user_watches"
    )]
    Watch(#[source] io::Error),
    /// The source ended.
    #[error("the source ended; see the log")]
    SourceEnded,
}

/// Runs until it is asked to end.
pub async fn run(setup: Setup) -> Result<(), DaemonError> {
    let mut signals = Signals::expect().map_err(DaemonError::Watch)?;
    let mut watch = HostWatch::begin().map_err(DaemonError::Watch)?;
    let mut pulse = notify::pulse().map(steady);
    let (done, mut finished) = unbounded_channel();
    let metrics = Arc::new(Metrics::of_this_host(&setup.node));
    if let Some(address) = setup.metrics {
        tokio::spawn(scrape::serve(address, metrics.clone()));
    }
    let mut daemon = Daemon::new(&setup, done, metrics);
    let mut said = setup.said;
    daemon.begin();
    notify::ready();
    while !daemon.is_over() {
        let timer = daemon.timer;
        tokio::select! {
            said = said.recv() => daemon.hear(said.ok_or(DaemonError::SourceEnded)?),
            Some(finished) = finished.recv() => daemon.conclude(finished, &mut watch),
            news = watch.next() => daemon.notice(news.map_err(DaemonError::Watch)?),
            () = until(timer) => daemon.on_time(),
            () = tick(pulse.as_mut()) => notify::alive(),
            event = signals.next() => daemon.happen(event),
        }
    }
    Ok(())
}

fn steady(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

/// Where it stands, and what is under way.
struct Daemon {
    lifecycle: Lifecycle,
    workshop: Workshop,
    at_work: AtWork,
    orders: UnboundedSender<Order>,
    done: UnboundedSender<Finished>,
    insist: InhibitorPolicy,
    metrics: Arc<Metrics>,
    /// Whether something is done to the host.
    is_working: bool,
    /// The number of the newest view, and of the newest that is known to whoever watches.
    views: [u64; 2],
    /// What is done once they know.
    announced: Vec<DaemonCommand>,
    delivery: Option<(ConfigRef, Arc<Delivery>)>,
    timer: Option<Instant>,
    blocked_since: Option<Instant>,
    trouble: Option<String>,
}

impl Daemon {
    fn new(setup: &Setup, done: UnboundedSender<Finished>, metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            lifecycle: Lifecycle::default(),
            workshop: setup.workshop.clone(),
            at_work: AtWork::default(),
            orders: setup.orders.clone(),
            done,
            insist: setup.insist,
            is_working: false,
            views: [0, 0],
            announced: Vec::new(),
            delivery: None,
            timer: None,
            blocked_since: None,
            trouble: None,
        }
    }

    fn begin(&mut self) {
        let commands = self.lifecycle.phase.commands(0);
        self.tell();
        self.carry_out(commands);
    }

    /// Nothing is under way any more, or it had its time.
    fn is_over(&self) -> bool {
        self.lifecycle.phase == DaemonPhase::Stopping && (!self.is_working || self.timer.is_none())
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Wished(wish) => self.happen(DaemonEvent::DesiredChanged(wish)),
            Said::Told(number) => {
                self.views[1] = self.views[1].max(number);
                self.go_on();
            }
            Said::Fetched(wish, fetched) => {
                if self.lifecycle.phase != (DaemonPhase::Fetching { target: wish.clone() }) {
                    return;
                }
                match fetched {
                    Ok(delivery) => {
                        self.delivery = Some((wish, Arc::new(delivery)));
                        self.happen(DaemonEvent::Fetched);
                    }
                    Err(problem) => self.happen(DaemonEvent::Failed(problem)),
                }
            }
            Said::Drained(wish) => {
                if self.lifecycle.phase.target().is_some_and(|target| target.is_same(&wish)) {
                    self.happen(DaemonEvent::Drained);
                }
            }
            Said::Uncordoned => self.happen(DaemonEvent::Uncordoned),
            Said::Trouble(trouble) => {
                if let Some(trouble) = &trouble {
                    log::warn!(MESSAGE_ID = message_ids::SOURCE_TROUBLE; "{trouble}");
                }
                self.metrics.set_trouble(trouble.is_some());
                self.trouble = trouble;
                self.publish();
            }
        }
    }

    fn conclude(&mut self, finished: Finished, watch: &mut HostWatch) {
        self.is_working = false;
        if let Some(found) = finished.found {
            self.metrics.set_unsupported_packages(found.unsupported_packages);
            if let Err(error) = watch.manage(found.managed) {
                log::warn!(
                    "what is managed cannot be watched, so changes are only seen with the next update: {error}"
                );
            }
        }
        self.happen(finished.event);
    }

    fn notice(&mut self, news: HostNews) {
        match (news, &self.lifecycle.phase) {
            (HostNews::Managed, _) => self.happen(DaemonEvent::FilesChanged),
            (HostNews::Asked, _) | (HostNews::Judged, DaemonPhase::CheckingBoot { .. }) => {
                self.happen(DaemonEvent::StateChanged);
            }
            (HostNews::Judged, _) => {}
        }
    }

    fn on_time(&mut self) {
        self.timer = None;
        self.happen(DaemonEvent::TimerExpired);
    }

    fn happen(&mut self, event: DaemonEvent) {
        let before = self.lifecycle.clone();
        log::debug!("{}: {event:?}", before.phase.name());
        let (next, commands) = std::mem::take(&mut self.lifecycle).step(event);
        self.lifecycle = next;
        if self.lifecycle.phase != before.phase {
            self.timer = None;
            self.announced.clear();
        }
        self.metrics.step(&before, &self.lifecycle);
        if self.lifecycle != before {
            self.tell();
        }
        if self.lifecycle.phase.is_announced_first() && !commands.contains(&DaemonCommand::Cancel) {
            self.announced.extend(commands);
            self.go_on();
        } else {
            self.carry_out(commands);
        }
    }

    /// Does what waited for whoever watches.
    fn go_on(&mut self) {
        let [newest, known] = self.views;
        if known < newest || self.announced.is_empty() {
            return;
        }
        if self.lifecycle.is_superseded() {
            return self.forgo();
        }
        let commands = std::mem::take(&mut self.announced);
        self.carry_out(commands);
    }

    fn tell(&mut self) {
        self.views[0] += 1;
        let view = Box::new(View { number: self.views[0], lifecycle: self.lifecycle.clone() });
        // Whoever is gone is missed where something is expected of them.
        drop(self.orders.send(Order::Tell(view)));
        self.publish();
        let phase = &self.lifecycle.phase;
        if phase.rests() {
            self.delivery = None;
        }
        if !matches!(phase, DaemonPhase::Rebooting { .. }) {
            self.blocked_since = None;
        }
    }

    fn publish(&self) {
        let report = DaemonReport::of(&self.lifecycle, self.trouble.as_deref(), std::process::id());
        notify::standing(&report);
        log::info!(
            MESSAGE_ID = message_ids::of(&self.lifecycle.phase),
            PHASE = report.phase.as_str(),
            WANTED = report.wanted.as_deref().unwrap_or_default(),
            RUNS = report.runs.as_deref().unwrap_or_default(),
            REASON = report.reason.as_deref().unwrap_or_default(),
            CLASS = report.class.as_deref().unwrap_or_default(),
            FAILURES = report.failures;
            "{}", report.sentence()
        );
    }

    fn carry_out(&mut self, commands: Vec<DaemonCommand>) {
        for command in commands {
            match command {
                DaemonCommand::Observe => self.work(Job::Look),
                DaemonCommand::Verify => self.work(Job::Verify),
                DaemonCommand::Prepare(wish) => self.work_with(wish, Job::Prepare),
                DaemonCommand::Apply(wish) => self.work_with(wish, Job::Apply),
                DaemonCommand::Unlock(wish) => self.work(Job::Arm(wish)),
                DaemonCommand::Reboot(wish) => {
                    let since = *self.blocked_since.get_or_insert_with(Instant::now);
                    let insists =
                        self.insist == InhibitorPolicy::OverruleAfterDeadline && since.elapsed() >= BLOCKED;
                    self.work(Job::Reboot { target: wish, insists });
                }
                DaemonCommand::Fetch(wish) => self.fetch(wish),
                DaemonCommand::Cancel => self.cancel(),
                DaemonCommand::Wait(delay) => self.timer = Some(Instant::now() + length(delay)),
                // Whoever reads the view knows.
                DaemonCommand::Drain(_) | DaemonCommand::Uncordon => {}
            }
        }
    }

    /// What the host is already lies on its disk: nobody else has to have it still.
    fn fetch(&mut self, wish: ConfigRef) {
        let runs = self.lifecycle.runs.as_ref().is_some_and(|runs| runs.is_same(&wish));
        if runs {
            self.delivery = Some((wish, Arc::default()));
            return self.happen(DaemonEvent::Fetched);
        }
        drop(self.orders.send(Order::Fetch(wish)));
    }

    fn work_with(&mut self, wish: ConfigRef, job: fn(ConfigRef) -> Job) {
        match &self.delivery {
            Some((delivered, _)) if *delivered == wish => self.work(job(wish)),
            _ => self.happen(DaemonEvent::Failed(DaemonProblem {
                class: ProblemClass::Bug,
                reason: format!("{} is not here although it was fetched", wish.config),
            })),
        }
    }

    /// One thing at a time: a phase in which something is done ends with the end of that.
    fn work(&mut self, job: Job) {
        let delivery = match job {
            Job::Prepare(_) | Job::Apply(_) => self.delivery.as_ref().map(|(_, delivery)| delivery.clone()),
            _ => None,
        };
        self.is_working = true;
        if let Err(error) = self.at_work.begin(&self.workshop, job, delivery, self.done.clone()) {
            self.is_working = false;
            let reason = format!("no thread can be started: {error}");
            self.happen(DaemonEvent::Failed(DaemonProblem { class: ProblemClass::Host, reason }));
        }
    }

    /// What waits to be begun is not begun.
    fn forgo(&mut self) {
        self.announced.clear();
        let reason = "something else is wanted".to_owned();
        self.happen(DaemonEvent::Failed(DaemonProblem { class: ProblemClass::Interrupted, reason }));
    }

    fn cancel(&mut self) {
        if !self.announced.is_empty() {
            return self.forgo();
        }
        self.at_work.cancel();
        if self.lifecycle.phase == DaemonPhase::Stopping {
            notify::stopping(FAREWELL);
            self.timer = self.is_working.then(|| Instant::now() + FAREWELL);
        }
    }
}

fn length(delay: DaemonDelay) -> Duration {
    match delay {
        DaemonDelay::Backoff(cure, failures) => cure.delay(failures, boot::chance()),
        DaemonDelay::Drain => DRAIN,
        DaemonDelay::Uncordon => UNCORDON,
        DaemonDelay::Reboot => REBOOT,
    }
}
