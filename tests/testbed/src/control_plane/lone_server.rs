//! API server that one program has for itself, and can restart.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::Client;

use super::server::{connect, define, free_port, is_serving, kubeconfig, unpacked};
use crate::preconditions::require_installed;

/// Longest time that the server may take to start; with many objects it reads them first.
const START: Duration = Duration::from_secs(180);
/// Time between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(50);

/// API server and its etcd. Both end with this value.
#[derive(Debug)]
pub struct LoneServer {
    directory: PathBuf,
    executable: PathBuf,
    port: u16,
    etcd: Child,
    server: Option<Child>,
}

impl LoneServer {
    /// Start the server with its state in `directory`, and define the custom resources of the fixtures.
    pub async fn start(directory: &Path) -> Self {
        require_installed(&["etcd", "setpriv", "sh", "xz"]);
        let (executable, port) = (unpacked(directory), free_port());
        let urls = [port + 1, port + 2].map(|port| format!("http://127.0.0.1:{port}"));
        let [clients, peers] = &urls;
        // The fleet writes more at a time than etcd's own limits for a small machine allow.
        let mut etcd = with_parent(Path::new("etcd"), directory, "etcd.log");
        etcd.args([
            "--data-dir",
            "data",
            "--quota-backend-bytes",
            "8589934592",
            "--listen-client-urls",
            clients,
            "--advertise-client-urls",
            clients,
            "--listen-peer-urls",
            peers,
        ]);
        let etcd = etcd.spawn().expect("etcd starts");
        fs::write(directory.join("kubeconfig"), kubeconfig(port)).unwrap();
        let mut started = Self { directory: directory.to_owned(), executable, port, etcd, server: None };
        started.start_again().await;
        define(&started.client().await).await;
        started
    }

    /// Return the kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Return a client of its own connections.
    pub async fn client(&self) -> Client {
        connect(&kubeconfig(self.port)).await
    }

    /// Return the process of the API server; `None` while it is stopped.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Return the number of open connections to the API server, from this process's network namespace.
    pub fn connections(&self) -> u64 {
        const ESTABLISHED: &str = "01";
        let (sockets, port) =
            (fs::read_to_string("/proc/self/net/tcp").unwrap(), format!(":{:04X}", self.port));
        let is_to_server = |line: &&str| {
            let mut fields = line.split_whitespace().skip(2);
            fields.next().is_some_and(|remote| remote.ends_with(&port)) && fields.next() == Some(ESTABLISHED)
        };
        sockets.lines().filter(is_to_server).map(|_| 1).sum()
    }

    /// Kill the API server: all its connections break.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            end(&mut server);
        }
    }

    /// Start the API server over the state that it had, and wait until it answers.
    pub async fn start_again(&mut self) {
        self.kill();
        let mut server = with_parent(&self.executable, &self.directory, "apiserver.log");
        server.args(["--etcd", &format!("http://127.0.0.1:{}", self.port + 1)]);
        server.args(["--port", &self.port.to_string(), "--cert-dir", "certs"]);
        self.server = Some(server.spawn().expect("the API server starts"));
        let end = Instant::now() + START;
        let client = self.client().await;
        while !is_serving(&client).await {
            assert!(Instant::now() < end, "the API server does not start: see {}", self.directory.display());
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for LoneServer {
    fn drop(&mut self) {
        self.kill();
        end(&mut self.etcd);
    }
}

/// Command of a program that ends with this one, and writes its output to a file of `directory`.
fn with_parent(program: &Path, directory: &Path, log: &str) -> Command {
    let said = File::options().append(true).create(true).open(directory.join(log)).unwrap();
    let errors = said.try_clone().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).current_dir(directory);
    command.stdin(Stdio::null()).stdout(said).stderr(errors);
    command
}

fn end(child: &mut Child) {
    let killed: io::Result<()> = child.kill();
    // It may have ended by itself.
    drop(killed);
    drop(child.wait());
}
