//! A file, or a directory of files, that says what this host is to be: without any cluster. Several files are merged as
//! a cluster merges those of a pool.
//!
//! Nobody watches the daemon there, and nobody has the workload leave: it is told at once that both are done.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::core::config::decode;
use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::render::{PoolName, ReleaseImages, render};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::ContentDigest;
use crate::host::file_watch::FileWatch;
use crate::source::{FetchedConfig, LifecycleView, SourceCommand, SourceEvent};

/// What several files are merged as.
const POOL: &str = "local";
/// How names of files end that count.
const SUFFIXES: [&str; 3] = ["json", "yaml", "yml"];
/// So many links in a row lead nowhere.
const LINKS: usize = 16;

/// Why nothing is wanted.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be read.
    #[error("reading {}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It is larger than any configuration.
    #[error("{} has more than {} bytes, which is more than is read", path.display(), limits::DOCUMENT_BYTES)]
    TooLarge {
        /// What.
        path: PathBuf,
    },
    /// It is no configuration.
    #[error("{} is refused: {source}", path.display())]
    Refused {
        /// What.
        path: PathBuf,
        /// Everything that is wrong with it.
        source: RefusalList,
    },
    /// There is none.
    #[error("{} holds no MachineConfig: put a file there whose name ends in .json or .yaml", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
}

/// The configuration at a path.
fn load(path: &Path) -> Result<MachineConfig, DirectoryError> {
    let mut files = files(path)?;
    let config = match (files.pop(), files.is_empty()) {
        (None, _) => return Err(DirectoryError::Empty { path: path.to_owned() }),
        (Some(file), true) => {
            let bytes = read(&file)?;
            machine_config::parse(&bytes).map_err(|source| DirectoryError::Refused { path: file, source })?
        }
        (Some(last), false) => {
            files.push(last);
            merged(path, &files)?
        }
    };
    decode::decode(&config).map_err(|source| DirectoryError::Refused { path: path.to_owned(), source })?;
    Ok(config)
}

fn merged(path: &Path, files: &[PathBuf]) -> Result<MachineConfig, DirectoryError> {
    let mut configs = Vec::new();
    for file in files {
        let parsed = machine_config::parse_all(&read(file)?);
        configs.extend(parsed.map_err(|source| DirectoryError::Refused { path: file.clone(), source })?);
    }
    let pool: PoolName = POOL.parse().expect("a name of letters");
    render(&configs, &pool, &ReleaseImages::default())
        .map_err(|source| DirectoryError::Refused { path: path.to_owned(), source })
}

/// The files that count, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    let failed = |source| DirectoryError::Read { path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Hidden names are those of files that are not complete yet, and of what volumes consist of.
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

fn config_ref(config: &MachineConfig) -> ConfigRef {
    let digest = ContentDigest::of(config.document.to_string().as_bytes());
    ConfigRef { config: config.name.clone(), image: None, digest: Some(digest.to_string()) }
}

/// The source.
#[derive(Debug)]
pub struct DirectorySource {
    path: PathBuf,
    said: UnboundedSender<SourceEvent>,
    last: Option<ConfigRef>,
    trouble: Option<String>,
}

impl DirectorySource {
    /// Says what lies at `path`, a file or a directory, whether it is there yet or not.
    #[must_use]
    pub fn new(path: PathBuf, said: UnboundedSender<SourceEvent>) -> Self {
        Self { path, said, last: None, trouble: None }
    }

    /// Runs as long as somebody listens.
    pub async fn run(mut self, mut orders: UnboundedReceiver<SourceCommand>) -> io::Result<()> {
        loop {
            // Watched first: what changes from here on is not missed.
            let mut watch = FileWatch::new()?;
            self.watch(&mut watch)?;
            self.look();
            tokio::select! {
                news = watch.next() => drop(news?),
                () = self.obey(&mut orders) => return Ok(()),
            }
        }
    }

    /// Returns when nobody listens any more.
    async fn obey(&self, orders: &mut UnboundedReceiver<SourceCommand>) {
        while let Some(order) = orders.recv().await {
            match order {
                SourceCommand::Publish(view) => {
                    let LifecycleView { number, lifecycle } = *view;
                    self.say(SourceEvent::Published(number));
                    match lifecycle.phase {
                        DaemonPhase::Draining { target, .. } => self.say(SourceEvent::Drained(target)),
                        DaemonPhase::Uncordoning { .. } => self.say(SourceEvent::Uncordoned),
                        _ => {}
                    }
                }
                SourceCommand::Fetch(desired) => {
                    let fetched = self.fetch(&desired);
                    self.say(SourceEvent::Fetched(desired, fetched));
                }
            }
        }
    }

    fn say(&self, said: SourceEvent) {
        // Nobody listens only where the daemon ends.
        drop(self.said.send(said));
    }

    fn fetch(&self, desired: &ConfigRef) -> Result<FetchedConfig, DaemonProblem> {
        let failed = |reason| DaemonProblem { class: ProblemClass::Transient, reason };
        let config = load(&self.path).map_err(|error| failed(chain(&error)))?;
        if !config_ref(&config).is_same(desired) {
            return Err(failed(format!("{} is another configuration by now", self.path.display())));
        }
        Ok(FetchedConfig { document: config.document.to_string().into_bytes(), policy: None })
    }

    fn look(&mut self) {
        let (desired, trouble) = match load(&self.path) {
            Ok(config) => (Some(config_ref(&config)), None),
            Err(error) => (None, Some(chain(&error))),
        };
        if trouble != self.trouble {
            self.trouble.clone_from(&trouble);
            self.say(SourceEvent::SourceError(trouble));
        }
        // What was wanted stays so while nothing whole is there.
        if let Some(desired) = desired.filter(|desired| self.last.as_ref() != Some(desired)) {
            self.last = Some(desired.clone());
            self.say(SourceEvent::DesiredChanged(desired));
        }
    }

    /// Watches everything by which a name leads to its content: a volume is swapped by renaming a link on the way.
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
