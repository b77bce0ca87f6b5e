//! A daemon that runs on a host, and what it says.

use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    booted::host::Host,
    dbus::{
        fake_logind::{FakeLogind, Script},
        private_bus::PrivateBus,
    },
};

/// Longer than anything takes: a test that hangs fails.
pub const PATIENT: Duration = Duration::from_secs(60);

/// The daemon, a bus and a logind on it. All of it ends with its owner.
pub struct Agent {
    process: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    pub logind: FakeLogind,
    metrics: SocketAddr,
    _bus: PrivateBus,
}

impl Agent {
    /// Starts it with these arguments.
    pub fn start(host: &Host, arguments: &[&str]) -> Self {
        Self::start_where(host, arguments, Script::default())
    }

    /// The same where logind follows a script.
    pub fn start_where(host: &Host, arguments: &[&str], script: Script) -> Self {
        Self::start_with(host, arguments, script, &[])
    }

    /// The same with these variables in its environment.
    pub fn start_with(host: &Host, arguments: &[&str], script: Script, environment: &[(&str, &str)]) -> Self {
        let bus = PrivateBus::on(host);
        let logind = FakeLogind::start(&bus, script);
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics = free.local_addr().unwrap();
        drop(free);
        // Several hosts have one loopback here.
        let address = metrics.to_string();
        let command = [&["flameholder", "daemon", "--metrics", &address], arguments].concat();
        // It ends with the test also where that is killed.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"])
            .args(host.entering(command))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines, said: Vec::new(), logind, metrics, _bus: bus }
    }

    /// Waits until it says a line that begins so, and returns that.
    pub fn says(&mut self, beginning: &str) -> String {
        let end = Instant::now() + PATIENT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("it does not say `{beginning}`, but:\n{}", self.said.join("\n"));
            };
            self.said.push(line.clone());
            if line.trim_start_matches("info: ").starts_with(beginning) {
                return line;
            }
        }
    }

    /// Waits until it enters a phase that is none of these; which.
    pub fn enters_other_than(&mut self, phases: &[String]) -> String {
        loop {
            self.says("");
            let last = self.phases().last().map(|phase| (*phase).to_owned());
            if let Some(phase) = last.filter(|phase| !phases.contains(phase)) {
                return phase;
            }
        }
    }

    /// The reboots that were asked for.
    pub fn reboots(&self) -> usize {
        self.logind.calls().iter().filter(|call| call.starts_with("Reboot")).count()
    }

    /// The phases that it went through so far, each once in a row.
    pub fn phases(&self) -> Vec<&str> {
        let phases = self.said.iter().filter_map(|line| line.strip_prefix("info: "));
        let mut phases: Vec<&str> = phases
            .filter(|line| line.starts_with(char::is_uppercase))
            .filter_map(|line| line.split([' ', ':']).next())
            .collect();
        phases.dedup();
        phases
    }

    /// What it counts.
    pub fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// The daemon's own process.
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

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for its end.
    pub fn end(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
