//! Notifications by hooks: programs that are told when the daemon reaches a phase in which a person may want to act.
//!
//! A job beside all others runs them. One runs at a time; of those that come meanwhile only the newest is kept. A failure
//! changes nothing.

use tokio::sync::mpsc::UnboundedSender;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::hook_verdicts::HookStage;
use crate::core::values::identifiers::ConfigName;
use crate::daemon::jobs::work_job::WorkJob;
use crate::daemon::jobs::work_process::{WorkCommand, WorkProcess};
use crate::daemon::jobs::work_result::WorkResult;
use crate::transaction::grant::hooks;

/// Phases that are told.
const PHASES: [&str; 7] =
    ["AwaitingGrant", "BackingOff", "Blocked", "Done", "Drifted", "RollingBack", "ShuttingDown"];

/// Content of a notification: phase, config and reason.
type HookNews = (String, Option<ConfigName>, Option<String>);

/// Notifications of the daemon.
pub(in crate::daemon) struct HookNotifications {
    command: WorkCommand,
    process: WorkProcess,
    done: UnboundedSender<WorkResult>,
    is_running: bool,
    /// The newest one that waits for the end of the running one.
    waiting: Option<HookNews>,
    told: Option<HookNews>,
}

impl HookNotifications {
    /// Create them; the ends of jobs are sent to `done`.
    pub(in crate::daemon) fn new(command: WorkCommand, done: UnboundedSender<WorkResult>) -> Self {
        let process = WorkProcess::default();
        Self { command, process, done, is_running: false, waiting: None, told: None }
    }

    /// Tell the hooks of a report, unless it says the same as the last one that they were told.
    pub(in crate::daemon) fn tell(&mut self, report: &DaemonReport) {
        let news = (report.phase.clone(), report.desired.clone(), report.reason.clone());
        if !PHASES.contains(&news.0.as_str()) || self.told.as_ref() == Some(&news) {
            return;
        }
        self.told = Some(news.clone());
        if !hooks::exist(HookStage::Notify) {
            return;
        }
        if self.is_running {
            self.waiting = Some(news);
        } else {
            self.begin(news);
        }
    }

    /// Take the end of the running job.
    pub(in crate::daemon) fn finish(&mut self) {
        self.is_running = false;
        if let Some(news) = self.waiting.take() {
            self.begin(news);
        }
    }

    /// End the running job: the daemon stops.
    pub(in crate::daemon) fn cancel(&mut self) {
        self.waiting = None;
        if self.is_running {
            self.process.cancel();
        }
    }

    fn begin(&mut self, (phase, config, _): HookNews) {
        let job = WorkJob::Notify { phase, config };
        match self.process.begin(&self.command, job, None, self.done.clone()) {
            Ok(()) => self.is_running = true,
            Err(problem) => log::warn!("no hook is notified: {}", problem.reason),
        }
    }
}
