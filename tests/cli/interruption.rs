//! Commands that an operator interrupts at a terminal.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Terminal: the side that shows, and the side that the command writes to.
fn terminal() -> (File, File) {
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&shown).unwrap();
    unlockpt(&shown).unwrap();
    let name = ptsname(&shown, Vec::new()).unwrap().into_string().unwrap();
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let written = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).unwrap();
    (shown.into(), written)
}

/// Start an `apply` to `root` that waits for its document, with this standard error.
fn start(root: &Path, errors: impl Into<Stdio>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flameholder"));
    command.args(["apply", "--desired", "-", "--root"]).arg(root);
    command.stdin(Stdio::piped()).stderr(errors).spawn().unwrap()
}

/// Wait until the process reads standard input; handlers are installed before.
fn wait_until_it_reads(child: &Child) {
    let end = Instant::now() + Duration::from_secs(60);
    // The number of read(2) differs between architectures; its first argument is standard input.
    let is_read = |text: String| text.split(' ').nth(1) == Some("0x0");
    while !fs::read_to_string(format!("/proc/{}/syscall", child.id())).is_ok_and(is_read) {
        assert!(Instant::now() < end, "the command does not read its standard input");
        std::thread::yield_now();
    }
}

fn interrupt(mut child: Child) {
    // `wait` closes it, and the command would read the end of its document.
    let _input = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn interruption_at_a_terminal_says_what_becomes_of_the_change() {
    let root = tempfile::tempdir().unwrap();
    let (mut shown, written) = terminal();
    let child = start(root.path(), written);
    wait_until_it_reads(&child);
    interrupt(child);
    let mut text = Vec::new();
    // A terminal that no process has open reads as EIO.
    if let Err(error) = shown.read_to_end(&mut text) {
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
    let text = String::from_utf8(text).unwrap();
    let recover = format!("interrupted: `flameholder recover --root {}` undoes", root.path().display());
    assert!(text.contains(&recover), "{text:?}");
}

#[test]
fn interruption_without_a_terminal_is_silent() {
    let root = tempfile::tempdir().unwrap();
    let mut child = start(root.path(), Stdio::piped());
    let mut errors = child.stderr.take().unwrap();
    wait_until_it_reads(&child);
    interrupt(child);
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}
