//! Running daemon on a host, with its output, metrics and reboots.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::booted::host::Host;
use crate::dbus::fake_logind::{FakeLogind, Script};
use crate::dbus::fake_systemd;
use crate::dbus::fake_systemd::FakeSystemd;
use crate::dbus::private_bus::PrivateBus;
use crate::output_lines::OutputLines;

/// Daemon, its bus and a logind on that bus. All of them end when this is dropped.
pub struct Agent {
    process: Child,
    lines: OutputLines,
    pub logind: FakeLogind,
    metrics: SocketAddr,
    bus: PrivateBus,
}

impl Agent {
    /// Start the daemon with these arguments.
    pub fn start(host: &Host, arguments: &[&str]) -> Self {
        Self::start_with_logind(host, arguments, Script::default())
    }

    /// Start the daemon with a logind that follows `script`.
    pub fn start_with_logind(host: &Host, arguments: &[&str], script: Script) -> Self {
        Self::start_with_environment(host, arguments, script, &[])
    }

    /// Start the daemon with a logind that follows `script` and with additional environment variables.
    pub fn start_with_environment(
        host: &Host,
        arguments: &[&str],
        script: Script,
        environment: &[(&str, &str)],
    ) -> Self {
        let bus = PrivateBus::on(host);
        let logind = FakeLogind::start(&bus, script);
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics = free.local_addr().unwrap();
        drop(free);
        // All hosts of a test run share one loopback: the port must be free.
        let address = metrics.to_string();
        let command = [&["flameholder", "daemon", "--metrics", &address], arguments].concat();
        // `setpriv` makes the kernel end the daemon with the test, even if the test is killed.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"])
            .args(host.unshare_arguments(command))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = OutputLines::of(process.stderr.take().unwrap());
        Self { process, lines, logind, metrics, bus }
    }

    /// Start a systemd on the bus of the daemon.
    pub fn start_systemd(&self, script: fake_systemd::Script) -> FakeSystemd {
        FakeSystemd::start(&self.bus.address, script)
    }

    /// Wait for a line of output with this beginning, and return the line.
    pub fn wait_for_line(&mut self, beginning: &str) -> String {
        self.lines.wait_for(&format!("begins with `{beginning}`"), |line| {
            line.starts_with(beginning) || without_level(line).is_some_and(|line| line.starts_with(beginning))
        })
    }

    /// Wait for a line of output with this text, and return the line.
    pub fn wait_for_text(&mut self, text: &str) -> String {
        self.lines.wait_for(&format!("has `{text}`"), |line| line.contains(text))
    }

    /// Wait for a phase that is not in `phases`, and return it.
    pub fn wait_for_phase_not_in(&mut self, phases: &[String]) -> String {
        loop {
            self.wait_for_line("");
            let last = self.phases().last().map(|phase| (*phase).to_owned());
            if let Some(phase) = last.filter(|phase| !phases.contains(phase)) {
                return phase;
            }
        }
    }

    /// Output so far, as far as it was waited for.
    pub fn output(&self) -> String {
        self.lines.seen().join("\n")
    }

    /// Number of reboots that the daemon requested.
    pub fn reboots(&self) -> usize {
        self.logind.calls().iter().filter(|call| call.starts_with("Reboot")).count()
    }

    /// Phases so far, repetitions of a phase merged.
    pub fn phases(&self) -> Vec<&str> {
        let phases = self.lines.seen().iter().filter_map(|line| without_level(line));
        let mut phases: Vec<&str> = phases
            .filter(|line| line.starts_with(char::is_uppercase))
            .filter_map(|line| line.split([' ', ':']).next())
            .collect();
        phases.dedup();
        phases
    }

    /// Metrics, in the classic text format.
    pub fn metrics(&self) -> String {
        self.metrics_response("").1
    }

    /// Header and body of the metrics endpoint's response to a request with these header lines.
    pub fn metrics_response(&self, header: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.metrics).unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (header, body) = text.split_once("\r\n\r\n").unwrap();
        (header.to_owned(), body.to_owned())
    }

    /// Address of the metrics endpoint.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// Process ID of the daemon.
    pub fn pid(&self) -> i32 {
        let mut pid = i32::try_from(self.process.id()).unwrap();
        loop {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
            if name.trim() == "flameholder" {
                return pid;
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            pid = children.split_whitespace().next().unwrap().parse().unwrap();
        }
    }

    /// Send a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Wait for the end of the daemon and return its exit code.
    pub fn end(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The daemon may have ended before: killing it then fails.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Message of a line of the log; `None` for other lines.
fn without_level(line: &str) -> Option<&str> {
    ["info: ", "warning: ", "error: "].iter().find_map(|level| line.strip_prefix(level))
}
