//! The host's system bus, which goes with its owner.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use crate::host::Host;

const SOCKET: &str = "run/dbus/system_bus_socket";

pub(crate) struct PrivateBus {
    pub(crate) address: String,
    process: Child,
}

/// Ends a bus from anywhere; these end with their host only.
pub(crate) struct Kill;

impl Kill {
    #[expect(clippy::unused_self, reason = "buses of other tests are ended by it")]
    pub(crate) fn now(&self) {}
}

impl PrivateBus {
    /// Starts it on a host that runs.
    pub(crate) fn start(host: &Host) -> Self {
        let directory = host.path("run/dbus");
        fs::create_dir_all(&directory).unwrap();
        let address = format!("unix:path={}", host.path(SOCKET).display());
        let config = format!(
            "<busconfig><listen>{address}</listen><auth>EXTERNAL</auth><policy context='default'><allow user='*'/>\
             <allow own='*'/><allow send_destination='*'/><allow receive_sender='*'/></policy></busconfig>"
        );
        fs::write(directory.join("bus.conf"), config).unwrap();
        let mut process = Command::new("dbus-daemon")
            .args(["--nofork", "--print-address=1"])
            .arg(format!("--config-file={}", directory.join("bus.conf").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It prints the address when it listens.
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { address, process }
    }

    #[expect(clippy::unused_self, reason = "buses of other tests are ended by it")]
    pub(crate) fn kill(&self) -> Kill {
        Kill
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
