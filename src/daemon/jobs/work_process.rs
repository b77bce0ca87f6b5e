//! Child processes that work on the host (`flameholder work`): start, cancel, read the result.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc::UnboundedSender;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;
use crate::core::values::profile::Profile;
use crate::daemon::jobs::work_job::{WorkJob, WorkRequest};
use crate::daemon::jobs::work_result::WorkResult;
use crate::host::memory_file::MemoryFile;
use crate::source::FetchedConfig;

/// The running version of this program, even if the file was replaced since it started.
const PROGRAM: &str = "/proc/self/exe";
/// Stack size in bytes of the thread that waits for the child process.
const STACK: usize = 128 << 10;

/// Command line and profile of work processes.
#[derive(Debug, Clone)]
pub struct WorkCommand {
    /// Arguments of this program that make it a work process.
    pub arguments: Vec<OsString>,
    /// Profile that decides which changes can be applied.
    pub profile: Profile,
    /// True if the host is a cluster's node.
    pub is_in_cluster: bool,
}

/// Running work process.
#[derive(Debug, Clone, Default)]
pub(in crate::daemon) struct WorkProcess(Arc<Mutex<ProcessState>>);

#[derive(Debug, Default)]
struct ProcessState {
    /// Process ID; `None` before the process was started, and after its end.
    pid: Option<u32>,
    /// True if the process is to end as soon as it is there.
    is_cancelled: bool,
}

impl WorkProcess {
    /// Terminate the work process. The next one recovers the change that it interrupts.
    pub(in crate::daemon) fn cancel(&self) {
        self.end(false);
    }

    /// Terminate the work process, or kill it.
    pub(in crate::daemon) fn end(&self, kills: bool) {
        let signal = if kills { Signal::SIGKILL } else { Signal::SIGTERM };
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(pid) = state.pid.and_then(|pid| i32::try_from(pid).ok())
            && let Err(error) = kill(Pid::from_raw(pid), signal)
        {
            log::warn!("cannot terminate the work process {pid}: {error}", error = chain(&error));
        }
    }

    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Run a job in a work process, and send its progress and its result to `done`. Fails if there is no thread for it.
    pub(in crate::daemon) fn begin(
        &self,
        work_command: &WorkCommand,
        job: WorkJob,
        delivery: Option<Arc<FetchedConfig>>,
        done: UnboundedSender<WorkResult>,
    ) -> Result<(), DaemonProblem> {
        *self.state() = ProcessState::default();
        let (work_command, at_work) = (work_command.clone(), self.clone());
        let waits = move || {
            let report = |progress| drop(done.send(progress));
            let finished = at_work.perform(&work_command, job, delivery, &report).unwrap_or_else(|error| {
                WorkResult::of(DaemonEvent::Failed(DaemonProblem {
                    class: ProblemClass::Transient,
                    reason: format!(
                        "the work process ended without a result: {error}; see the journal of flameholder-daemon"
                    ),
                }))
            });
            // The receiver is gone only when the daemon stops.
            drop(done.send(finished));
        };
        let thread =
            std::thread::Builder::new().name("work-process".to_owned()).stack_size(STACK).spawn(waits);
        thread.map(drop).map_err(|error| DaemonProblem {
            class: ProblemClass::Host,
            reason: format!("cannot start a thread for the work process: {error}"),
        })
    }

    fn perform(
        &self,
        work_command: &WorkCommand,
        job: WorkJob,
        delivery: Option<Arc<FetchedConfig>>,
        report: &dyn Fn(WorkResult),
    ) -> io::Result<WorkResult> {
        let mut child = Command::new(PROGRAM)
            .args(&work_command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        {
            let mut state = self.state();
            state.pid = Some(child.id());
            if state.is_cancelled {
                child.kill()?;
            }
        }
        let answer = exchange(&mut child, work_command, job, delivery.as_deref(), report);
        drop(delivery);
        // From here on the kernel may give the process ID to another process.
        self.state().pid = None;
        let ended = child.wait()?;
        answer?.ok_or_else(|| io::Error::other(ended.to_string()))
    }
}

fn exchange(
    child: &mut Child,
    work_command: &WorkCommand,
    job: WorkJob,
    delivery: Option<&FetchedConfig>,
    report: &dyn Fn(WorkResult),
) -> io::Result<Option<WorkResult>> {
    let nothing = FetchedConfig::default();
    let delivery = delivery.unwrap_or(&nothing);
    let request = WorkRequest {
        job,
        profile: work_command.profile,
        is_in_cluster: work_command.is_in_cluster,
        document: delivery.document.as_ref().map_or(0, MemoryFile::length),
        policy: delivery.policy.as_ref().map(Vec::len),
    };
    if let Some(mut input) = child.stdin.take() {
        let sent = serde_json::to_writer(&mut input, &request)
            .map_err(io::Error::from)
            .and_then(|()| input.write_all(b"\n"))
            .and_then(|()| delivery.document.as_ref().map_or(Ok(()), |file| file.copy_to(&mut input)))
            .and_then(|()| input.write_all(delivery.policy.as_deref().unwrap_or_default()));
        // A process that ended already reports the reason by its exit status.
        if let Err(error) = sent {
            log::debug!("the work process does not read its request: {error}", error = chain(&error));
        }
    }
    let mut result = None;
    let Some(output) = &mut child.stdout else { return Ok(None) };
    for line in BufReader::new(output).split(b'\n') {
        let written: WorkResult = serde_json::from_slice(&line?)?;
        if written.is_progress {
            report(written);
        } else {
            result = Some(written);
        }
    }
    Ok(result)
}
