//! Run of the executable that is stopped in the middle while a test inspects the host.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::injection;
use crate::model::run::{Outcome, program};

/// Run under strace, stopped by a signal. It ends when this value is dropped.
pub struct StoppedRun {
    strace: Child,
    /// Output of strace; kept open, because strace ends when its pipe is closed.
    output: BufReader<ChildStderr>,
    /// Process ID of the run in the test's own PID namespace.
    pub pid: u32,
    is_over: bool,
}

impl StoppedRun {
    /// Start the executable, and wait until it is stopped behind the call with this name and number.
    pub fn at((name, number): (&str, usize), arguments: &[&str]) -> Self {
        let mut strace = Command::new("strace")
            // With `-f` each line begins with the process; without threads there is only one.
            .args(["-f", "-o", "/dev/stderr", "-e", &format!("trace={name},clone,clone3")])
            .args(["-e", "inject=clone,clone3:error=EAGAIN"])
            .args(["-e", &injection(name, number, "STOP"), &program()])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(strace.stderr.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("--- stopped by SIGSTOP ---") {
            assert!(
                output.read_line(&mut lines).unwrap() > 0,
                "the run ended before call {number} of {name}: {lines}"
            );
        }
        let last = lines.lines().last().unwrap();
        let pid = last.split(' ').next().unwrap().parse().unwrap();
        Self { strace, output, pid, is_over: false }
    }

    /// Continue the run to its end. Standard error contains the output of strace too.
    pub fn resume(mut self) -> Outcome {
        self.signal(Signal::CONT);
        self.end()
    }

    /// Kill the run and wait for its end.
    pub fn kill(mut self) {
        let process = pidfd_open(self.process(), PidfdFlags::empty()).unwrap();
        self.signal(Signal::KILL);
        // strace may have a call for the process in progress, and return before the process ends.
        retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], None)).unwrap();
        self.end();
    }

    fn process(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).unwrap();
    }

    fn end(&mut self) -> Outcome {
        let mut stderr = String::new();
        self.output.read_to_string(&mut stderr).unwrap();
        self.is_over = true;
        Outcome { code: self.strace.wait().unwrap().code(), stdout: String::new(), stderr }
    }
}

impl Drop for StoppedRun {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::KILL);
            self.end();
        }
    }
}
