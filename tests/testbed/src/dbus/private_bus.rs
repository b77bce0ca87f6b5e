//! Message bus of a single test, by dbus-daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use crate::booted::host::Host;
use crate::dbus::dbus_daemon;

/// Socket of a host's system bus.
const SOCKET: &str = "run/dbus/system_bus_socket";

/// Bus that ends when this value is dropped, or on demand.
#[derive(Debug)]
pub struct PrivateBus {
    pub address: String,
    daemon: Arc<Mutex<Child>>,
    /// Directory of the bus; `None` if the bus is that of a host.
    _directory: Option<tempfile::TempDir>,
}

/// Handle that ends a bus from any thread.
#[derive(Debug, Clone)]
pub struct Kill(Arc<Mutex<Child>>);

impl Kill {
    pub fn now(&self) {
        let mut daemon = self.0.lock().unwrap();
        // Killing an ended daemon fails.
        drop(daemon.kill());
        daemon.wait().unwrap();
    }
}

impl PrivateBus {
    /// Start a bus whose policy allows everything but the manager's methods in `denied`.
    pub fn start(denied: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let denied: String = denied
            .iter()
            .map(|method| {
                format!("<deny send_interface='org.freedesktop.systemd1.Manager' send_member='{method}'/>")
            })
            .collect();
        let address = format!("unix:dir={}", directory.path().display());
        let config = Self::configure(directory.path(), "<type>system</type>", &address, &denied);
        Self::launch(&config, Some(directory))
    }

    /// Start the system bus of a running host.
    pub fn on(host: &Host) -> Self {
        let directory = host.path("run/dbus");
        fs::create_dir_all(&directory).unwrap();
        let address = format!("unix:path={}", host.path(SOCKET).display());
        Self::launch(&Self::configure(&directory, "", &address, ""), None)
    }

    fn configure(directory: &Path, kind: &str, listen: &str, denied: &str) -> PathBuf {
        let config = directory.join("bus.conf");
        let text = format!(
            "<busconfig>{kind}<listen>{listen}</listen><auth>EXTERNAL</auth>\
             <policy context='default'><allow user='*'/><allow own='*'/><allow send_destination='*'/>\
             <allow receive_sender='*'/>{denied}</policy></busconfig>"
        );
        fs::write(&config, text).unwrap();
        config
    }

    fn launch(config: &Path, directory: Option<tempfile::TempDir>) -> Self {
        let (daemon, address, _) = dbus_daemon::launch(config, Stdio::null());
        Self { address, daemon: Arc::new(Mutex::new(daemon)), _directory: directory }
    }

    pub fn kill(&self) -> Kill {
        Kill(Arc::clone(&self.daemon))
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        self.kill().now();
    }
}
