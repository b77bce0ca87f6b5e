//! Container registry on this machine's loopback, which serves the OS images to a guest.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::program;
use crate::wait::until;

/// A Docker registry that serves a folder of images. Dropping it stops it.
#[derive(Debug)]
pub struct Registry {
    builder: PathBuf,
    storage: PathBuf,
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Registry {
    /// Create a registry for this port, which is not started. Its configuration and log are in `folder`.
    pub(crate) fn new(builder: &Path, storage: &Path, folder: &Path, port: u16) -> Self {
        Self {
            builder: builder.to_owned(),
            storage: storage.to_owned(),
            folder: folder.to_owned(),
            port,
            process: None,
        }
    }

    /// Return the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Start the registry without authentication, and wait until it answers.
    ///
    /// # Errors
    /// The registry does not start or ends; the error has its log.
    pub fn start(&mut self) -> Result<()> {
        self.start_with("")
    }

    /// Start the registry with basic authentication. `logins` is a file of htpasswd(1) with bcrypt digests.
    ///
    /// # Errors
    /// As for [`Registry::start`].
    pub fn start_for(&mut self, logins: &str) -> Result<()> {
        let file = self.folder.join("htpasswd");
        fs::write(&file, logins).with_context(|| format!("writing {}", file.display()))?;
        self.start_with(&format!("auth: {{htpasswd: {{realm: test, path: '{}'}}}}\n", file.display()))
    }

    fn start_with(&mut self, more: &str) -> Result<()> {
        self.stop();
        let config = self.folder.join("registry.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: '{}'}}}}\nhttp: {{addr: '127.0.0.1:{}'}}\n{more}",
            self.storage.display(),
            self.port
        );
        fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
        let log = self.folder.join("registry.log");
        let log_file = File::create(&log).with_context(|| format!("writing {}", log.display()))?;
        let server = program::of_tree(&self.builder, "usr/bin/docker-registry");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(server.get_program()).args(server.get_args());
        command.arg("serve").arg(&config).stdin(Stdio::null());
        let mut child = command
            .stdout(log_file.try_clone()?)
            .stderr(log_file)
            .spawn()
            .context("starting docker-registry")?;
        let port = self.port;
        let answers = until("the registry to answer", Duration::from_secs(30), || {
            if let Some(status) = child.try_wait()? {
                bail!("the registry ended with {status}:\n{}", fs::read_to_string(&log).unwrap_or_default());
            }
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok())
        });
        self.process = Some(child);
        answers.map(drop)
    }

    /// Stop the registry; the guest's connections are refused from now on.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.process.take() {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Return a free port of 127.0.0.1.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding a free port of 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
