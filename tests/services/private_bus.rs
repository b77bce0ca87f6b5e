//! A message bus of the test's own, by dbus-daemon.

use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use crate::dbus_daemon;

/// A bus that dies with its owner, or when it is told to.
#[derive(Debug)]
pub struct PrivateBus {
    pub address: String,
    daemon: Arc<Mutex<Child>>,
    _directory: tempfile::TempDir,
}

/// Ends a bus from anywhere.
#[derive(Debug, Clone)]
pub struct Kill(Arc<Mutex<Child>>);

impl Kill {
    pub fn now(&self) {
        let mut daemon = self.0.lock().unwrap();
        // It may be dead already.
        drop(daemon.kill());
        daemon.wait().unwrap();
    }
}

impl PrivateBus {
    /// Starts one whose policy allows everything but the manager's methods in `denied`.
    pub fn start(denied: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let denied: String = denied
            .iter()
            .map(|method| {
                format!("<deny send_interface='org.freedesktop.systemd1.Manager' send_member='{method}'/>")
            })
            .collect();
        let config = directory.path().join("bus.conf");
        let text = format!(
            "<busconfig><type>system</type><listen>unix:dir={}</listen><auth>EXTERNAL</auth>\
             <policy context='default'><allow user='*'/><allow own='*'/><allow send_destination='*'/>\
             <allow receive_sender='*'/>{denied}</policy></busconfig>",
            directory.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let (daemon, address, _) = dbus_daemon::launch(&config, Stdio::null());
        let daemon = Arc::new(Mutex::new(daemon));
        Self { address, daemon, _directory: directory }
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
