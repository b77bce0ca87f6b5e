//! The host's system bus, which activates the daemon.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use rpmostreed::Faults;
use testbed::booted::host::Host;
use testbed::dbus::dbus_daemon;

use crate::rpm_ostree::peers::daemon;

const SOCKET: &str = "run/dbus/system_bus_socket";

/// A bus that ends when dropped, together with the processes that it activated.
pub(crate) struct Bus {
    process: Child,
    /// Kept open: activated processes write there too, and a closed pipe would end them.
    _output: BufReader<ChildStdout>,
}

impl Bus {
    /// Starts the bus on a running host.
    pub(crate) fn start(host: &Host) -> Self {
        Self::launch(host, 60_000, None)
    }

    /// The same, with transaction sockets reachable from outside the host, and a daemon that exits after `idle`
    /// milliseconds without a client.
    pub(crate) fn start_for_tests(host: &Host, idle: u64) -> Self {
        Self::launch(host, idle, Some(&socket(host)))
    }

    fn launch(host: &Host, idle: u64, announce: Option<&Path>) -> Self {
        daemon::install(host);
        let directory = host.path("run/dbus");
        fs::create_dir_all(&directory).unwrap();
        // The bus runs outside the host, so its activated processes have to enter the host's mount namespace. The
        // process namespace is shared, because the bus identifies its clients by process number.
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
        // It may have ended already. Activated processes end with their connection to it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The bus address from outside the host.
pub(crate) fn address(host: &Host) -> String {
    format!("unix:path={}", host.path(SOCKET).display())
}

/// The transaction socket's path from outside the host.
pub(crate) fn socket(host: &Host) -> PathBuf {
    host.path(daemon::SOCKET.trim_start_matches('/'))
}

/// Sets the daemon's faults for its next transactions.
pub(crate) fn fail(host: &Host, faults: &Faults) {
    let path = host.path(daemon::FAULTS.trim_start_matches('/'));
    fs::write(path, serde_json::to_vec(faults).unwrap()).unwrap();
}
