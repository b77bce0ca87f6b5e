//! A run that stands still in the middle, for as long as a test looks around.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::place;
use crate::model::run::{Outcome, program};

/// The run, under strace, stopped by a signal. It ends with this, whatever becomes of the test.
pub struct Held {
    strace: Child,
    /// What strace says; open, or strace would die of a closed pipe.
    said: BufReader<ChildStderr>,
    /// The run's own process, as the kernel knows it.
    pub pid: u32,
    is_over: bool,
}

impl Held {
    /// Runs until it has made the call of this name and number, and waits until it stands still.
    pub fn at((name, number): (&str, usize), arguments: &[&str]) -> Self {
        let mut strace = Command::new("strace")
            // With `-f` each line begins with the process; without threads there is one.
            .args(["-f", "-o", "/dev/stderr", "-e", &format!("trace={name},clone,clone3")])
            .args(["-e", "inject=clone,clone3:error=EAGAIN", "-e", &place(name, number, "STOP"), &program()])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(strace.stderr.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("--- stopped by SIGSTOP ---") {
            assert!(said.read_line(&mut lines).unwrap() > 0, "{name} {number} is not reached: {lines}");
        }
        let last = lines.lines().last().unwrap();
        let pid = last.split(' ').next().unwrap().parse().unwrap();
        Self { strace, said, pid, is_over: false }
    }

    /// Lets it go on to its end. Standard error holds what strace says, too.
    pub fn go_on(mut self) -> Outcome {
        self.signal(Signal::CONT);
        self.end()
    }

    /// Kills it; it is gone on return.
    pub fn kill(mut self) {
        let process = pidfd_open(self.process(), PidfdFlags::empty()).unwrap();
        self.signal(Signal::KILL);
        // strace may be in the middle of a call about it, and end of that before the process does.
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
        self.said.read_to_string(&mut stderr).unwrap();
        self.is_over = true;
        Outcome { code: self.strace.wait().unwrap().code(), stdout: String::new(), stderr }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::KILL);
            self.end();
        }
    }
}
