//! The host's system bus, which goes with its owner.

use std::{
    fs,
    process::{Child, Stdio},
};

use crate::{dbus_daemon, host::Host};

const SOCKET: &str = "run/dbus/system_bus_socket";

pub(crate) struct PrivateBus {
    pub(crate) address: String,
    process: Child,
}

/// Ends a bus from anywhere; these end with their host only.
#[derive(Debug, Clone)]
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
        let (process, ..) = dbus_daemon::launch(&directory.join("bus.conf"), Stdio::null());
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
