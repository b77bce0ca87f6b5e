//! The host's system bus, which starts the daemon when it is called.

use std::{
    fs,
    io::BufReader,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Stdio},
};

use rpmostreed::Faults;

use crate::rpm_ostree::peers::daemon;
use testbed::{booted::host::Host, dbus::dbus_daemon};

const SOCKET: &str = "run/dbus/system_bus_socket";

/// A bus that goes with its owner, and with it what it started.
pub(crate) struct Bus {
    process: Child,
    /// What it starts writes there too, and would end if nobody read.
    _output: BufReader<ChildStdout>,
}

impl Bus {
    /// Starts it on a host that runs.
    pub(crate) fn start(host: &Host) -> Self {
        Self::launch(host, 60_000, None)
    }

    /// The same where transactions are found from outside of the host, with a daemon that leaves after so many
    /// milliseconds.
    pub(crate) fn start_for_tests(host: &Host, idle: u64) -> Self {
        Self::launch(host, idle, Some(&socket(host)))
    }

    fn launch(host: &Host, idle: u64, announce: Option<&Path>) -> Self {
        daemon::install(host);
        let directory = host.path("run/dbus");
        fs::create_dir_all(&directory).unwrap();
        // The bus is outside of the host, and what it starts has to get in. It sees the processes of all others: who
        // connects has a number there.
        let quoted: Vec<String> = host
            .unshare_arguments(daemon::command(idle, announce))
            .iter()
            .map(|word| format!("\"{}\"", word.to_str().unwrap()))
            .collect();
        let exec = format!("/usr/bin/unshare --mount {}", quoted.join(" "));
        let service = format!("[D-BUS Service]\nName={}\nExec={exec}\n", rpmostreed::NAME);
        fs::write(directory.join("rpmostree.service"), service).unwrap();
        let config = format!(
            "<busconfig><listen>unix:path={}</listen><auth>EXTERNAL</auth><servicedir>{}</servicedir>\
             <policy context='default'><allow user='*'/><allow own='*'/><allow send_destination='*'/>\
             <allow receive_sender='*'/></policy></busconfig>",
            host.path(SOCKET).display(),
            directory.display()
        );
        fs::write(directory.join("bus.conf"), config).unwrap();
        let (process, _, output) = dbus_daemon::launch(&directory.join("bus.conf"), Stdio::inherit());
        Self { process, _output: output }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        // It may be gone already. What it started ends with its connection to it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The bus as it is called from outside of the host.
pub(crate) fn address(host: &Host) -> String {
    format!("unix:path={}", host.path(SOCKET).display())
}

/// Where transactions are found from there.
pub(crate) fn socket(host: &Host) -> PathBuf {
    host.path(daemon::SOCKET.trim_start_matches('/'))
}

/// Says how the daemon is to fail from now on.
pub(crate) fn fail(host: &Host, faults: &Faults) {
    let path = host.path(daemon::FAULTS.trim_start_matches('/'));
    fs::write(path, serde_json::to_vec(faults).unwrap()).unwrap();
}
