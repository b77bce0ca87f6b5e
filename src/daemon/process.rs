//! The processes in which work is done, from the daemon's side.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc::UnboundedSender;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem, ProblemClass};
use crate::core::values::profile::Profile;
use crate::source::Delivery;

use crate::daemon::work::{Finished, Job, Order};

/// This very program, also where it was replaced by another version since.
const PROGRAM: &str = "/proc/self/exe";
/// Stack of a thread that only waits, in bytes.
const STACK: usize = 128 << 10;

/// How they are started.
#[derive(Debug, Clone)]
pub struct Workshop {
    /// The arguments of the command that does the work.
    pub arguments: Vec<OsString>,
    /// Whose verdicts apply.
    pub profile: Profile,
}

/// The one that is at work.
#[derive(Debug, Clone, Default)]
pub(super) struct AtWork(Arc<Mutex<Option<u32>>>);

impl AtWork {
    /// Asks it to end. Whatever it leaves is settled by the next one.
    pub(super) fn cancel(&self) {
        let pid = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok())
            && let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM)
        {
            log::warn!("what is under way cannot be ended: {error}");
        }
    }

    /// Has a job done; what came of it is sent when it is over.
    pub(super) fn begin(
        &self,
        workshop: &Workshop,
        job: Job,
        delivery: Option<Arc<Delivery>>,
        done: UnboundedSender<Finished>,
    ) -> io::Result<()> {
        let (workshop, at_work) = (workshop.clone(), self.clone());
        let waits = move || {
            let finished = at_work.perform(&workshop, job, delivery).unwrap_or_else(|error| Finished {
                event: DaemonEvent::Failed(DaemonProblem {
                    class: ProblemClass::Transient,
                    reason: format!(
                        "what works on the host did not get to its end, and is tried again; its journal says more: {error}"
                    ),
                }),
                found: None,
            });
            // Nobody listens only where the daemon ends.
            drop(done.send(finished));
        };
        std::thread::Builder::new().name("at-work".to_owned()).stack_size(STACK).spawn(waits).map(drop)
    }

    fn perform(
        &self,
        workshop: &Workshop,
        job: Job,
        delivery: Option<Arc<Delivery>>,
    ) -> io::Result<Finished> {
        let mut child = Command::new(PROGRAM)
            .args(&workshop.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id());
        let said = converse(&mut child, workshop, job, delivery.as_deref());
        drop(delivery);
        // Its number is somebody else's from here on.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let ended = child.wait()?;
        let said = said?;
        if said.is_empty() {
            return Err(io::Error::other(ended.to_string()));
        }
        Ok(serde_json::from_slice(&said)?)
    }
}

fn converse(
    child: &mut Child,
    workshop: &Workshop,
    job: Job,
    delivery: Option<&Delivery>,
) -> io::Result<Vec<u8>> {
    let nothing = Delivery::default();
    let delivery = delivery.unwrap_or(&nothing);
    let order = Order {
        job,
        profile: workshop.profile,
        document: delivery.document.len(),
        policy: delivery.policy.as_ref().map(Vec::len),
    };
    if let Some(mut input) = child.stdin.take() {
        let told = serde_json::to_writer(&mut input, &order)
            .map_err(io::Error::from)
            .and_then(|()| input.write_all(b"\n"))
            .and_then(|()| input.write_all(&delivery.document))
            .and_then(|()| input.write_all(delivery.policy.as_deref().unwrap_or_default()));
        // It may have ended already, and then that says why.
        if let Err(error) = told {
            log::debug!("what works on the host does not listen: {error}");
        }
    }
    let mut said = Vec::new();
    if let Some(output) = &mut child.stdout {
        output.read_to_end(&mut said)?;
    }
    Ok(said)
}
