//! Container registry on this machine's loopback, which serves the OS images, or files, to a guest.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::lab::{REGISTRY, REPOSITORY};
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
    /// Start an empty registry on a free port, with all its files in `folder`.
    ///
    /// # Errors
    /// As for [`Registry::start`].
    pub fn start_empty(builder: &Path, folder: &Path) -> Result<Self> {
        let storage = folder.join("storage");
        fs::create_dir_all(&storage).with_context(|| format!("making {}", storage.display()))?;
        let mut registry = Self::new(builder, &storage, folder, free_port()?);
        registry.start()?;
        Ok(registry)
    }

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
        self.start_with(&self.storage.clone(), "")
    }

    /// Start the registry with storage of this host alone instead of the images: empty at first.
    ///
    /// # Errors
    /// As for [`Registry::start`].
    pub fn start_anew(&mut self) -> Result<()> {
        let storage = self.folder.join("files");
        fs::create_dir_all(&storage).with_context(|| format!("making {}", storage.display()))?;
        self.start_with(&storage, "")
    }

    /// Start the registry with these files as blobs instead of the images, and return the URL of each for
    /// the guest.
    ///
    /// # Errors
    /// As for [`Registry::start`]; a file cannot be read or uploaded.
    pub fn start_with_files(&mut self, files: &[&Path]) -> Result<Vec<String>> {
        self.start_anew()?;
        files.iter().map(|file| self.upload(file)).collect()
    }

    /// Upload a file as a blob: a session, then the whole content.
    fn upload(&self, file: &Path) -> Result<String> {
        let content = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let digest = format!("sha256:{:x}", Sha256::digest(&content));
        let mut begin = curl();
        begin.args(["--request", "POST", "--write-out", "%header{location}"]);
        let session =
            program::read(begin.arg(format!("http://127.0.0.1:{}/v2/files/blobs/uploads/", self.port)))?;
        let mut put = curl();
        put.arg("--upload-file").arg(file).arg(format!("{session}&digest={digest}"));
        program::read(&mut put)?;
        Ok(format!("http://{REGISTRY}/v2/files/blobs/{digest}"))
    }

    /// Return the digest of the configuration that this image names, a blob that the running registry sends.
    ///
    /// # Errors
    /// The registry does not answer, or the image has no manifest of its own.
    pub fn config_digest(&self, image: &str) -> Result<String> {
        let digest = image.split_once('@').with_context(|| format!("{image} names no digest"))?.1;
        let mut get = Command::new("curl");
        get.args(["--silent", "--show-error", "--fail"]);
        get.args(["--header", "Accept: application/vnd.oci.image.manifest.v1+json"]);
        get.arg(format!("http://127.0.0.1:{}/v2/{REPOSITORY}/manifests/{digest}", self.port));
        let manifest: Value = serde_json::from_str(&program::read(&mut get)?)
            .with_context(|| format!("reading the manifest of {image}"))?;
        let digest = manifest.pointer("/config/digest").and_then(Value::as_str);
        digest.map(str::to_owned).with_context(|| format!("the manifest of {image} names no configuration"))
    }

    /// Return the URL at which the guest finds the blob with this digest.
    #[must_use]
    pub fn blob_url(&self, digest: &str) -> String {
        format!("http://{REGISTRY}/v2/{REPOSITORY}/blobs/{digest}")
    }

    /// Start the registry with basic authentication. `logins` is a file of htpasswd(1) with bcrypt digests.
    ///
    /// # Errors
    /// As for [`Registry::start`].
    pub fn start_for(&mut self, logins: &str) -> Result<()> {
        let file = self.folder.join("htpasswd");
        fs::write(&file, logins).with_context(|| format!("writing {}", file.display()))?;
        let logins = format!("auth: {{htpasswd: {{realm: test, path: '{}'}}}}\n", file.display());
        self.start_with(&self.storage.clone(), &logins)
    }

    fn start_with(&mut self, storage: &Path, more: &str) -> Result<()> {
        self.stop();
        let config = self.folder.join("registry.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: '{}'}}}}\nhttp: {{addr: '127.0.0.1:{}'}}\n{more}",
            storage.display(),
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

fn curl() -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--output", "/dev/null"]);
    command
}

/// Return a free port of 127.0.0.1.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding a free port of 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
