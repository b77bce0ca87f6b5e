//! Flushes counted and made slow by strace(1).
//!
//! Its seccomp filter leaves all other calls untraced, so that what tracing costs is paid per flush, by both sides
//! alike.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::stopwatch;

/// Each of them waits for the device.
const FLUSHES: &str = "fsync,fdatasync,syncfs,sync,msync,sync_file_range";

/// What a process asked of the kernel, with its threads and children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    pub flushes: u32,
    /// Programs started, the process itself included.
    pub programs: u32,
}

/// Runs `command` and counts; `log` is overwritten.
///
/// # Errors
/// strace cannot be started, or the command fails.
pub fn count(command: &Command, log: &Path) -> Result<Calls> {
    let trace = format!("trace={FLUSHES},execve,execveat");
    let mut strace = strace(log);
    strace.args(["-e", &trace]);
    stopwatch::time(&mut traced(strace, command))?;
    let text = std::fs::read_to_string(log).with_context(|| format!("reading {}", log.display()))?;
    Ok(parse(&text))
}

/// The command that runs `command` with every flush taking `microseconds` longer.
///
/// strace delays the calls of several threads side by side, as a device with a queue would.
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

/// Reads a log whose lines begin with the thread's number. A call that another thread's interrupts takes two lines,
/// of which the second says `resumed` and has no opening bracket behind its name.
fn parse(log: &str) -> Calls {
    let mut calls = Calls::default();
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
    fn interrupted_calls_count_once() {
        let log = "\
100   execve(\"/usr/bin/flameholder\", [\"flameholder\", \"fsync(2)\"], 0x7ffd /* 20 vars */) = 0
100   fsync(5 <unfinished ...>
101   fdatasync(6)                      = 0
100   <... fsync resumed>)              = 0
101   syncfs(3)                         = 0
";
        assert_eq!(parse(log), Calls { flushes: 3, programs: 1 });
    }

    #[test]
    fn nothing_is_counted_in_an_empty_log() {
        assert_eq!(parse(""), Calls::default());
    }
}
