//! Source `dir:PATH`: the desired config is a file, or a directory of files, which are merged as a cluster
//! merges the MachineConfigs of a pool.
//!
//! Without a cluster, no component drains the node or reads published phases: both are acknowledged at once.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::core::config::machine_config::MachineConfig;
use crate::core::config::render::{PoolName, ReleaseImages, RenderedName, render};
use crate::core::config::{decode, machine_config};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::host::file_watch::FileWatch;
use crate::host::memory_file::MemoryFile;
use crate::host::trusted_path::{TrustError, ensure_only_root_changes};
use crate::source::{FetchedConfig, SourceCommand, SourceEvent, acknowledge, config_ref};

/// Pool name for the rendered config of several files.
const POOL: &str = "local";
/// File name extensions of configs; other files are ignored.
const SUFFIXES: [&str; 3] = ["json", "yaml", "yml"];
/// Symbolic links that are followed in a row; more are a loop.
const LINKS: usize = 16;

/// Failure to read the desired config.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// An unreadable file or directory.
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file, or a directory or link on the way to it, that users other than root can change.
    #[error("the source is not trusted")]
    Untrusted(#[from] TrustError),
    /// A file above the size limit of a config.
    #[error("{} has more than {} bytes, the limit of a config", path.display(), limits::DOCUMENT_BYTES)]
    TooLarge { path: PathBuf },
    /// A file that is not a valid config, or files that cannot be merged.
    #[error("{}", refusals.in_file(&path.display().to_string()))]
    Refused {
        path: PathBuf,
        /// Every problem of the config, each with its field.
        refusals: RefusalList,
    },
    /// A directory without a config.
    #[error("{} holds no MachineConfig: put a file there whose name ends in .json or .yaml", path.display())]
    Empty { path: PathBuf },
}

/// Load the config at a path, and refuse one that cannot be decoded or that users other than root can change:
/// its files and units become files and units of root.
fn load(path: &Path) -> Result<MachineConfig, DirectoryError> {
    let mut files = files(path)?;
    for file in &files {
        ensure_only_root_changes(file)?;
    }
    match (files.pop(), files.is_empty()) {
        (None, _) => Err(DirectoryError::Empty { path: path.to_owned() }),
        (Some(file), true) => {
            let bytes = read(&file)?;
            let decoded = machine_config::parse(&bytes).and_then(|config| {
                decode::decode(&config)?;
                Ok(config)
            });
            decoded.map_err(|refusals| DirectoryError::Refused {
                path: file,
                refusals: refusals.placed_in(&bytes),
            })
        }
        (Some(last), false) => {
            files.push(last);
            merged(path, &files)
        }
    }
}

fn merged(path: &Path, files: &[PathBuf]) -> Result<MachineConfig, DirectoryError> {
    let mut configs = Vec::new();
    for file in files {
        let bytes = read(file)?;
        let parsed = machine_config::parse_all(&bytes);
        configs.extend(parsed.map_err(|refusals| DirectoryError::Refused {
            path: file.clone(),
            refusals: refusals.placed_in(&bytes),
        })?);
    }
    let pool: PoolName = POOL.parse().expect("constant pool name is valid");
    render(&configs, &RenderedName::OfPool(pool), &ReleaseImages::default())
        .map_err(|refusals| DirectoryError::Refused { path: path.to_owned(), refusals })
}

/// List the config files at a path, sorted by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    let failed = |source| DirectoryError::Read { path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Hidden names belong to incomplete files (editors, rsync), and to the internals of Kubernetes
        // volumes.
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let counts = entry.path().extension().is_some_and(|suffix| SUFFIXES.iter().any(|one| suffix == *one));
        if counts && !is_hidden {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, DirectoryError> {
    let failed = |source| DirectoryError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let bound = limits::DOCUMENT_BYTES as u64 + 1;
    File::open(path).map_err(failed)?.take(bound).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 >= bound {
        return Err(DirectoryError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Return the path if it is a directory, else the directory that holds it.
fn directory_of(path: &Path) -> PathBuf {
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let directory = if is_directory { path } else { path.parent().unwrap_or(path) };
    directory.to_owned()
}

#[derive(Debug)]
pub struct DirectorySource {
    path: PathBuf,
    events: UnboundedSender<SourceEvent>,
    last: Option<ConfigRef>,
    error: Option<String>,
}

impl DirectorySource {
    /// Create the source for a file or directory, which need not exist yet; reports go to `events`.
    #[must_use]
    pub fn new(path: PathBuf, events: UnboundedSender<SourceEvent>) -> Self {
        Self { path, events, last: None, error: None }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(mut self, mut orders: UnboundedReceiver<SourceCommand>) -> io::Result<()> {
        loop {
            // Watch before reading, so that no later change is missed.
            let mut watch = FileWatch::new()?;
            self.watch(&mut watch)?;
            if let Some(untrusted) = self.reload() {
                watch.add(&untrusted)?;
                self.reload();
            }
            tokio::select! {
                event = watch.next() => drop(event?),
                () = self.run_commands(&mut orders) => return Ok(()),
            }
        }
    }

    /// Answer commands until the daemon drops its end of the channel.
    async fn run_commands(&self, orders: &mut UnboundedReceiver<SourceCommand>) {
        while let Some(order) = orders.recv().await {
            match order {
                SourceCommand::Publish(view) => acknowledge(&view, |event| self.send(event)),
                SourceCommand::Fetch(desired) => {
                    let fetched = self.fetch(&desired).map_err(Into::into);
                    self.send(SourceEvent::Fetched(desired, fetched));
                }
            }
        }
    }

    fn send(&self, event: SourceEvent) {
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }

    fn fetch(&self, desired: &ConfigRef) -> Result<FetchedConfig, DaemonProblem> {
        let failed = |reason| DaemonProblem { class: ProblemClass::Transient, reason };
        let config = load(&self.path).map_err(|error| failed(chain(&error)))?;
        if !config_ref(&config).is_same(desired) {
            return Err(failed(format!(
                "{} has changed since it was reported as desired",
                self.path.display()
            )));
        }
        let document = MemoryFile::of("machineconfig", config.document.to_string().as_bytes());
        let document = document.map_err(|error| failed(format!("no memory for the config: {error}")))?;
        Ok(FetchedConfig { document: Some(document), policy: None })
    }

    /// Load the config, and report it or the error. Returns the directory in which owners or modes have to be
    /// corrected; it may be far above the files.
    fn reload(&mut self) -> Option<PathBuf> {
        let loaded = load(&self.path);
        let untrusted = match &loaded {
            Err(DirectoryError::Untrusted(error)) => Some(directory_of(error.path())),
            _ => None,
        };
        let (desired, trouble) = match loaded {
            Ok(config) => (Some(config_ref(&config)), None),
            Err(error) => (None, Some(chain(&error))),
        };
        if trouble != self.error {
            self.error.clone_from(&trouble);
            self.send(SourceEvent::SourceError(trouble));
        }
        // The last desired config stays in force while the files are missing or invalid.
        if let Some(desired) = desired.filter(|desired| self.last.as_ref() != Some(desired)) {
            self.last = Some(desired.clone());
            self.send(SourceEvent::DesiredChanged(desired));
        }
        untrusted
    }

    /// Watch every directory on the path to the files, through symbolic links: Kubernetes replaces the
    /// contents of a volume by renaming a link on the way.
    fn watch(&self, watch: &mut FileWatch) -> io::Result<()> {
        let mut path = std::path::absolute(&self.path)?;
        for _ in 0..LINKS {
            let mut directory = path.parent().unwrap_or(Path::new("/"));
            while !directory.is_dir() {
                directory = directory.parent().unwrap_or(Path::new("/"));
            }
            watch.add(directory)?;
            match path.read_link() {
                Ok(target) => path = directory.join(target),
                Err(_) => break,
            }
        }
        if path.is_dir() {
            watch.add(&path)?;
        }
        Ok(())
    }
}
