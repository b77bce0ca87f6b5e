//! The peak resident memory of a process.
//!
//! `ru_maxrss` of wait4(2) is of no use: a new process inherits the peak of its parent. So ptrace(2) stops
//! the process at its exit, and its own high-water mark is read from `/proc`.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use nix::libc::c_int;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::program;

/// Run `command` and return its peak resident memory in KiB.
///
/// # Errors
/// The command cannot be started or traced, or it fails.
pub fn of(command: &Command) -> Result<u32> {
    let shown = program::shown(command);
    let mut child = start_held(command).with_context(|| format!("starting `{shown}`"))?;
    let peak = trace(&mut child).with_context(|| format!("tracing `{shown}`"));
    if peak.is_err() {
        // The process may still be stopped; the first error is reported.
        let _ = child.kill();
    }
    let status = child.wait().with_context(|| format!("awaiting `{shown}`"))?;
    let peak = peak?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(peak)
}

/// Start a shell that executes the program when its standard input ends.
fn start_held(command: &Command) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", "read -r line; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn trace(child: &mut Child) -> Result<u32> {
    let pid = Pid::from_raw(child.id().try_into()?);
    ptrace::seize(pid, Options::PTRACE_O_TRACEEXIT)?;
    drop(child.stdin.take());
    loop {
        match waitpid(pid, None)? {
            WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_EXIT as c_int => break,
            WaitStatus::PtraceEvent(..) => ptrace::cont(pid, None)?,
            WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal)?,
            other => bail!("the process ended before its exit event: {other:?}"),
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    ptrace::detach(pid, None)?;
    parse(&status?).context("/proc/PID/status has no VmHWM")
}

fn parse(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_mark_is_parsed() {
        assert_eq!(parse("Name:\tsh\nVmPeak:\t    2576 kB\nVmHWM:\t    1536 kB\n"), Some(1536));
        assert_eq!(parse("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn peak_is_that_of_the_program_itself() {
        let small = of(&Command::new("true")).unwrap();
        // dd fills its buffer.
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"]);
        let large = of(&dd).unwrap();
        assert!(small > 0 && small < 16 * 1024, "{small}");
        assert!(large >= small + 63 * 1024, "{large}");
    }

    #[test]
    fn failing_program_is_an_error() {
        assert!(of(&Command::new("false")).is_err());
    }
}
