//! Transient services: systemd runs a program in a unit of its own, with limits of its own. The sandbox of this process does
//! not apply to it, and none of its processes remains.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use zbus::zvariant::{Fd, OwnedObjectPath, Value};

use crate::host::systemd::pid1::{MANAGER, PROPERTIES};
use crate::host::systemd::private_socket::{ANSWER, PeerError, PrivateSocket, SocketReply};

const SERVICE: &str = "org.freedesktop.systemd1.Service";
/// Time between SIGTERM and SIGKILL of a program whose deadline has passed.
const STOP: Duration = Duration::from_secs(5);
/// `CLD_EXITED` of waitid(2): the value of `ExecMainCode` for a process that exited.
const EXITED: i32 = 1;
/// Exit code of a process in which systemd could not execute the program (systemd.exec(5), `EXIT_EXEC`).
const NOT_EXECUTED: i32 = 203;

/// Number of services that this process has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Program to run as a service.
#[derive(Debug)]
pub(crate) struct TransientService<'a> {
    /// Begin of the unit's name.
    pub(crate) prefix: &'a str,
    /// Description of the unit.
    pub(crate) description: String,
    /// Unit that runs it. Its stop stops the program too, and not before itself: a program that the shutdown of the host
    /// cuts short says nothing about the host.
    pub(crate) owner: &'a str,
    /// Environment variables, `NAME=VALUE`.
    pub(crate) environment: &'a [String],
    pub(crate) program: &'a Path,
    /// Time until the program is stopped.
    pub(crate) deadline: Duration,
}

/// Result of a service that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceResult {
    Exited(ExitStatus),
    NotExecuted,
    /// The deadline passed, and the unit was stopped with all its processes.
    TimedOut,
}

impl TransientService<'_> {
    /// Run the program and wait for its end, with `output` as its standard output and standard error, and `input` as its
    /// standard input.
    ///
    /// An error says nothing about the program, which may still run, until its deadline at the latest.
    pub(crate) fn run(
        &self,
        socket: &Path,
        input: &OwnedFd,
        output: OwnedFd,
    ) -> Result<ServiceResult, PeerError> {
        let mut systemd = PrivateSocket::connect(socket, ANSWER)?;
        // The program before this one may still be loaded, and one of an earlier process, which was killed, may still run.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let unit = format!("{}-{}-{number}.service", self.prefix, std::process::id());
        let no_other_units: [(&str, Vec<(&str, Value<'_>)>); 0] = [];
        let start = (unit.as_str(), "fail", self.properties(input, &output), no_other_units.as_slice());
        let job: OwnedObjectPath =
            systemd.call(MANAGER, "StartTransientUnit", &start).and_then(SocketReply::body)?;
        drop(start);
        // The end of the output shows that every process has closed it.
        drop(output);
        let end = Instant::now() + self.deadline + STOP + ANSWER;
        let is_ours = |(_, ended, ..): &(u32, OwnedObjectPath, String, String)| *ended == job;
        let (.., result) = systemd.wait_for("JobRemoved", end, is_ours)?;
        if result == "done" {
            return Ok(ServiceResult::Exited(ExitStatus::default()));
        }
        let read = read_result(&mut systemd, &unit);
        // The host would count as degraded. A unit whose state could not be read may be gone.
        let _ = systemd.call(MANAGER, "ResetFailedUnit", &unit);
        read
    }

    fn properties<'v>(&'v self, input: &'v OwnedFd, output: &'v OwnedFd) -> Vec<(&'static str, Value<'v>)> {
        let program = self.program.to_string_lossy().into_owned();
        let command = (program.clone(), vec![program], false);
        let descriptor = || Value::Fd(Fd::Borrowed(output.as_fd()));
        let input = Value::Fd(Fd::Borrowed(input.as_fd()));
        vec![
            ("Description", Value::from(self.description.as_str())),
            // Its start job ends when the program does.
            ("Type", Value::from("oneshot")),
            ("ExecStart", Value::from(vec![command])),
            ("DefaultDependencies", Value::from(false)),
            ("PartOf", Value::from(vec![self.owner])),
            ("Before", Value::from(vec![self.owner])),
            ("Environment", Value::from(self.environment.to_vec())),
            ("TimeoutStartUSec", Value::from(in_microseconds(self.deadline))),
            ("TimeoutStopUSec", Value::from(in_microseconds(STOP))),
            ("StandardInputFileDescriptor", input),
            ("StandardOutputFileDescriptor", descriptor()),
            ("StandardErrorFileDescriptor", descriptor()),
            // The workload comes first: in processor time, at the disk, and when memory is short.
            ("Nice", Value::from(5)),
            ("IOSchedulingPriority", Value::from(7)),
            ("OOMScoreAdjust", Value::from(500)),
            ("TasksMax", Value::from(4096_u64)),
            ("LimitCORE", Value::from(0_u64)),
        ]
    }
}

fn read_result(systemd: &mut PrivateSocket, unit: &str) -> Result<ServiceResult, PeerError> {
    let path: OwnedObjectPath = systemd.call(MANAGER, "GetUnit", &unit).and_then(SocketReply::body)?;
    let mut property = |name: &str| systemd.call_at(path.as_str(), PROPERTIES, "Get", &(SERVICE, name));
    let result: String = property("Result")?.variant()?;
    if result == "timeout" {
        return Ok(ServiceResult::TimedOut);
    }
    let code: i32 = property("ExecMainCode")?.variant()?;
    let status: i32 = property("ExecMainStatus")?.variant()?;
    Ok(match (code, status) {
        (EXITED, NOT_EXECUTED) => ServiceResult::NotExecuted,
        // The encoding of wait(2).
        (EXITED, code) => ServiceResult::Exited(ExitStatus::from_raw(code << 8)),
        (_, signal) => ServiceResult::Exited(ExitStatus::from_raw(signal)),
    })
}

fn in_microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
