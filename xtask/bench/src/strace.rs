//! Counting and slowing down flushes with strace(1).
//!
//! Its seccomp filter leaves all other system calls untraced, so that tracing costs time per flush only, for
//! both sides alike.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::stopwatch;

/// System calls that wait for the device.
const FLUSHES: &str = "fsync,fdatasync,syncfs,sync,msync,sync_file_range";

/// System calls of a process, its threads and its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    pub flushes: u32,
    /// Started programs, the process itself included.
    pub programs: u32,
}

/// Run `command` and count its system calls; `log` is overwritten.
///
/// # Errors
/// strace cannot be started, or the command fails.
pub fn count(command: &Command, log: &Path) -> Result<CallCounts> {
    let trace = format!("trace={FLUSHES},execve,execveat");
    let mut strace = strace(log);
    strace.args(["-e", &trace]);
    stopwatch::time(&mut traced(strace, command))?;
    let text = std::fs::read_to_string(log).with_context(|| format!("reading {}", log.display()))?;
    Ok(parse(&text))
}

/// Return a command that runs `command` with each flush delayed by `microseconds`.
///
/// strace delays the calls of several threads in parallel, as a device with a queue does.
pub fn slowed(command: &Command, microseconds: u32) -> Command {
    let trace = format!("trace={FLUSHES}");
    let inject = format!("inject={FLUSHES}:delay_exit={microseconds}");
    let mut strace = strace(Path::new("/dev/null"));
    strace.args(["-e", &trace, "-e", &inject]);
    traced(strace, command)
}

fn strace(log: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-o"]).arg(log);
    strace
}

fn traced(mut strace: Command, command: &Command) -> Command {
    strace.arg("--").arg(command.get_program()).args(command.get_args());
    strace
}

/// Parse a log whose lines begin with the thread ID. A call that another thread's call interrupts takes two
/// lines; the second has `resumed` and no opening bracket after the name.
fn parse(log: &str) -> CallCounts {
    let mut calls = CallCounts::default();
    for line in log.lines() {
        let Some((_, call)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        match call.trim_start().split_once('(') {
            Some(("execve" | "execveat", _)) => calls.programs += 1,
            Some((name, _)) if FLUSHES.split(',').any(|flush| flush == name) => calls.flushes += 1,
            _ => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_call_is_counted_once() {
        let log = "\
100   execve(\"/usr/bin/flameholder\", [\"flameholder\", \"fsync(2)\"], 0x7ffd /* 20 vars */) = 0
100   fsync(5 <unfinished ...>
101   fdatasync(6)                      = 0
100   <... fsync resumed>)              = 0
101   syncfs(3)                         = 0
";
        assert_eq!(parse(log), CallCounts { flushes: 3, programs: 1 });
    }

    #[test]
    fn empty_log_has_no_calls() {
        assert_eq!(parse(""), CallCounts::default());
    }
}
