//! A real API server of the test's own, or the one that the environment names.

use std::{
    env,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/control-plane");

pub struct ControlPlane {
    pub kubeconfig: PathBuf,
    directory: Option<tempfile::TempDir>,
}

impl ControlPlane {
    /// Starts one.
    pub fn start() -> Self {
        if let Some(kubeconfig) = env::var_os("FLAMEHOLDER_TEST_KUBECONFIG") {
            return Self { kubeconfig: kubeconfig.into(), directory: None };
        }
        let start = Path::new(SCRIPTS).join("start");
        assert!(
            start.exists(),
            "there is no API server to start, and FLAMEHOLDER_TEST_KUBECONFIG names no cluster"
        );
        crate::preconditions::require_installed(&["etcd", "curl", "xz"]);
        let directory = tempfile::tempdir().unwrap();
        // Somebody may take the ports in between; then others are tried.
        for _ in 0..5 {
            let output =
                Command::new(&start).arg(directory.path()).arg(free_port().to_string()).output().unwrap();
            if output.status.success() {
                let kubeconfig = String::from_utf8(output.stdout).unwrap().trim().into();
                return Self { kubeconfig, directory: Some(directory) };
            }
            stop(directory.path());
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
        panic!("the API server does not start");
    }
}

/// The first of three in a row that nobody listens on.
fn free_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let Some(last) = port.checked_add(2) else { continue };
        if (port + 1..=last).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

fn stop(directory: &Path) {
    let stopped = Command::new(Path::new(SCRIPTS).join("stop")).arg(directory).status();
    if !stopped.is_ok_and(|status| status.success()) {
        eprintln!("the API server of {} may still run", directory.display());
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            stop(directory.path());
        }
    }
}
