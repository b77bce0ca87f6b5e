//! Source `dir:PATH`: the desired config is a file, or a directory of files (MachineConfigs, Ignition and Butane configs), which
//! are merged as a cluster merges the MachineConfigs of a pool.
//!
//! Without a cluster, no component drains the node or reads published phases: both are acknowledged at once.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::core::config::decode;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::render::documents::name_documents;
use crate::core::config::render::{PoolName, ReleaseImages, RenderedName, render};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonProblem, ProblemClass};
use crate::core::plan::plain_ignition;
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::host::file_watch::FileWatch;
use crate::host::local_directory::LocalDirectory;
use crate::host::memory_file::MemoryFile;
use crate::host::trusted_path::{TrustError, ensure_only_root_changes};
use crate::source::{FetchedConfig, SourceCommand, SourceEvent, acknowledge, config_ref};

/// Pool name for the rendered config of several files.
const POOL: &str = "local";
/// File name extensions of configs; other files are ignored.
const SUFFIXES: [&str; 5] = ["bu", "ign", "json", "yaml", "yml"];
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
    #[error("{} holds no config: put a file there whose name ends in .yaml, .json, .ign or .bu", path.display())]
    Empty { path: PathBuf },
}

/// Load the config at a path, and refuse one that cannot be decoded or that users other than root can change:
/// its files and units become files and units of root. A single MachineConfig keeps its name. `local` has the files that Butane
/// configs name.
fn load(path: &Path, local: &LocalDirectory) -> Result<MachineConfig, DirectoryError> {
    let files = files(path)?;
    for file in &files {
        ensure_only_root_changes(file)?;
    }
    let mut configs = Vec::new();
    for file in &files {
        let bytes = read(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let refused = |refusals: RefusalList| DirectoryError::Refused {
            path: file.clone(),
            refusals: refusals.placed_in(&bytes),
        };
        let parsed = plain_ignition::parse_all(&bytes, &name, local).map_err(refused)?;
        if let ([only], 1) = (parsed.as_slice(), files.len()) {
            // The places of its problems are known.
            decode::decode(only).map_err(refused)?;
        }
        configs.extend(parsed);
    }
    if configs.is_empty() {
        return Err(DirectoryError::Empty { path: path.to_owned() });
    }
    if let ([only], 1) = (configs.as_slice(), files.len())
        && !only.replaces_paths
    {
        return Ok(only.clone());
    }
    let pool: PoolName = POOL.parse().expect("constant pool name is valid");
    let rendered = render(&configs, &RenderedName::OfPool(pool), &ReleaseImages::default())
        .map_err(|refusals| DirectoryError::Refused { path: path.to_owned(), refusals })?;
    Ok(name_documents(rendered, &configs))
}

/// Return the directory of a source's files, which may not exist.
fn directory_of_files(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() { path } else { parent.unwrap_or(Path::new(".")) }
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
            let others = self.reload();
            for directory in &others {
                watch.add(directory)?;
            }
            if !others.is_empty() {
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
        let local = LocalDirectory::of_root(directory_of_files(&self.path));
        let config = load(&self.path, &local).map_err(|error| failed(chain(&error)))?;
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

    /// Load the config, and report it or the error. Returns further directories in which a change matters: that in which owners
    /// or modes have to be corrected, which may be far above the files, and those of local files.
    fn reload(&mut self) -> Vec<PathBuf> {
        let local = LocalDirectory::of_root(directory_of_files(&self.path));
        let loaded = load(&self.path, &local);
        let mut others = local.directories();
        if let Err(DirectoryError::Untrusted(error)) = &loaded {
            others.push(directory_of(error.path()));
        }
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
        others
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
