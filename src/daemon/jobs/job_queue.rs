//! Jobs of the daemon, one at a time: those of the lifecycle, and between them those of trust material and of pinned
//! images, which are short and have the first turn.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem};
use crate::daemon::jobs::job_deadline::JobDeadline;
use crate::daemon::jobs::work_job::WorkJob;
use crate::daemon::jobs::work_process::{WorkCommand, WorkProcess};
use crate::daemon::jobs::work_result::WorkResult;
use crate::source::FetchedConfig;

/// Party that a job works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum JobKind {
    Lifecycle,
    Trust,
    Pins,
    Grant,
}

/// Job and the documents that it needs.
pub(in crate::daemon) type JobInput = (WorkJob, Option<Arc<FetchedConfig>>);

/// Running job, and the one that waits for its end.
pub(in crate::daemon) struct JobQueue {
    command: WorkCommand,
    process: WorkProcess,
    done: UnboundedSender<WorkResult>,
    deadline: JobDeadline,
    running: Option<JobKind>,
    /// Job of the lifecycle that waits for the end of another one.
    waiting: Option<JobInput>,
}

impl JobQueue {
    /// Results are sent to `done`.
    pub(in crate::daemon) fn new(
        command: WorkCommand,
        deadline: JobDeadline,
        done: UnboundedSender<WorkResult>,
    ) -> Self {
        let process = WorkProcess::default();
        Self { command, process, done, deadline, running: None, waiting: None }
    }

    pub(in crate::daemon) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Start a job, or keep one of the lifecycle until the running one ends. The lifecycle has at most one: a phase with
    /// work ends only when the work ends.
    pub(in crate::daemon) fn begin(&mut self, kind: JobKind, input: JobInput) -> Result<(), DaemonProblem> {
        if self.running.is_some() {
            self.waiting = Some(input);
            return Ok(());
        }
        let (job, delivery) = input;
        self.process.begin(&self.command, job, delivery, self.done.clone())?;
        self.running = Some(kind);
        self.deadline.begin();
        Ok(())
    }

    /// Take the result of the running job; returns its kind.
    pub(in crate::daemon) fn finish(&mut self, event: DaemonEvent) -> (JobKind, DaemonEvent) {
        let kind = self.running.take().unwrap_or(JobKind::Lifecycle);
        (kind, self.deadline.finish(event))
    }

    /// Start the job that waits, if one does.
    pub(in crate::daemon) fn begin_waiting(&mut self) -> Result<(), DaemonProblem> {
        self.waiting.take().map_or(Ok(()), |input| self.begin(JobKind::Lifecycle, input))
    }

    /// Cancel the job of the lifecycle: end its process, or drop it if it waits, and return true then. Where the daemon
    /// stops, any other job ends as well.
    pub(in crate::daemon) fn cancel(&mut self, is_stopping: bool) -> bool {
        if self.running == Some(JobKind::Lifecycle) || is_stopping {
            self.process.cancel();
        }
        self.waiting.take().is_some()
    }

    /// Time at which the running job has to end.
    pub(in crate::daemon) fn deadline(&self) -> Option<Instant> {
        self.deadline.at()
    }

    /// End a job that exceeded its deadline.
    pub(in crate::daemon) fn expire(&mut self) {
        self.deadline.expire(&self.process);
    }
}
