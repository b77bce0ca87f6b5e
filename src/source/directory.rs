//! Source `dir:PATH`: the desired config is a file, or a directory of files (MachineConfigs, Ignition and Butane configs), which
//! are merged as a cluster merges the MachineConfigs of a pool.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;

use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::received::ReferencedContents;
use crate::core::config::received::document_set::{DocumentSet, is_document};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::host::file_watch::FileWatch;
use crate::host::local_directory::LocalDirectory;
use crate::host::memory_file::MemoryFile;
use crate::host::trusted_path::{TrustError, ensure_only_root_changes};
use crate::source::contents_fetcher::{ContentsFetcher, FetchError};
use crate::source::{FetchedConfig, SourceCommand, SourceEvent, config_ref, delay_after};

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
    #[error(transparent)]
    Contents(#[from] FetchError),
}

/// Refuse files that users other than root can change: their files and units become files and units of root.
fn ensure_trusted(files: &[PathBuf]) -> Result<(), DirectoryError> {
    Ok(files.iter().try_for_each(|file| ensure_only_root_changes(file))?)
}

/// Read the config at a path with the contents that it names, under the name that the daemon gives it. An operator's command
/// reads it so as well: it trusts the files that it was given.
pub fn read_config(
    path: &Path,
    remote: &RemoteContents,
) -> Result<MachineConfig, UnresolvedConfig<DirectoryError>> {
    load(path, &config_files(path)?, ReferencedContents { local: &local_files(path), remote })
}

/// Read and merge the files of a source.
fn load(
    path: &Path,
    files: &[PathBuf],
    referenced: ReferencedContents<'_>,
) -> Result<MachineConfig, UnresolvedConfig<DirectoryError>> {
    let mut documents = DocumentSet::of(files.len());
    for file in files {
        let bytes = read(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let refused = |refusals| DirectoryError::Refused { path: file.to_owned(), refusals };
        documents.add(&name, &bytes, referenced).map_err(|error| error.map_refused(refused))?;
    }
    let refused = |refusals| DirectoryError::Refused { path: path.to_owned(), refusals };
    let merged = documents.merge().map_err(refused)?;
    Ok(merged.ok_or_else(|| DirectoryError::Empty { path: path.to_owned() })?)
}

/// Name the local files of a source's configs. The source may not exist.
fn local_files(source: &Path) -> LocalDirectory {
    LocalDirectory::of_root(if source.is_dir() { source } else { LocalDirectory::of_file(source) })
}

/// List the config files at a path, sorted by name. A directory has at least one.
pub fn config_files(path: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    let failed = |source| DirectoryError::Read { path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.file_name().is_some_and(|name| is_document(&name.to_string_lossy())) {
            ensure_regular(&path)?;
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(DirectoryError::Empty { path: path.to_owned() }) } else { Ok(files) }
}

/// Fail for a pipe, from which a read may never return, and for a directory or device.
fn ensure_regular(path: &Path) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Read { path: path.to_owned(), source };
    if path.metadata().map_err(failed)?.is_file() {
        return Ok(());
    }
    Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")))
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

/// Return the path if it is a directory, else the nearest directory above it.
fn nearest_directory(path: &Path) -> &Path {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/"))
}

/// Watch each of the directories, or the nearest one above it, and return those that are watched.
fn watch_nearest(watch: &mut FileWatch, directories: &BTreeSet<PathBuf>) -> io::Result<BTreeSet<PathBuf>> {
    let mut watched = BTreeSet::new();
    for directory in directories {
        match watch.add(nearest_directory(directory)) {
            // Gone since: the next load names it again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            added => added?,
        }
        watched.insert(directory.clone());
    }
    Ok(watched)
}

#[derive(Debug)]
pub struct DirectorySource {
    path: PathBuf,
    contents: ContentsFetcher,
    events: UnboundedSender<SourceEvent>,
    last: Option<ConfigRef>,
}

impl DirectorySource {
    /// Create the source for a file or directory, which need not exist yet; reports go to `events`.
    #[must_use]
    pub fn new(path: PathBuf, contents: ContentsFetcher, events: UnboundedSender<SourceEvent>) -> Self {
        Self { path, contents, events, last: None }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(mut self, mut commands: UnboundedReceiver<SourceCommand>) -> io::Result<()> {
        let (mut others, mut failures) = (BTreeSet::new(), 0_u32);
        'changed: loop {
            // Watch before reading, so that no later change is missed.
            let mut watch = FileWatch::new()?;
            self.watch(&mut watch)?;
            let mut watched = watch_nearest(&mut watch, &others)?;
            let retry = loop {
                let loaded = tokio::select! {
                    loaded = self.load(&mut others) => loaded,
                    // A server can take minutes to send what another config does not name any more.
                    event = watch.next() => {
                        event?;
                        continue 'changed;
                    }
                    () = self.run_commands(&mut commands) => return Ok(()),
                };
                let retry = self.report(loaded);
                if others.is_subset(&watched) {
                    break retry;
                }
                watched.extend(watch_nearest(&mut watch, &others)?);
            };
            failures = if retry.is_some() { failures.saturating_add(1) } else { 0 };
            let retry = retry.map(|after| sleep(after + delay_after(failures)));
            tokio::select! {
                event = watch.next() => drop(event?),
                Some(()) = OptionFuture::from(retry) => {}
                () = self.run_commands(&mut commands) => return Ok(()),
            }
        }
    }

    /// Answer commands until the daemon drops its end of the channel.
    async fn run_commands(&self, commands: &mut UnboundedReceiver<SourceCommand>) {
        while let Some(command) = commands.recv().await {
            match command {
                SourceCommand::Publish(_) => {}
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
        let loaded = self.contents.read_cached(|remote| self.load_with(remote, &mut BTreeSet::new()));
        let config = loaded.map_err(|error| failed(chain(&error)))?;
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

    /// Load the config, and fetch the contents that it names. Adds further directories in which a change matters: that in which
    /// owners or modes have to be corrected, which may be far above the files, and those of local files.
    async fn load(&self, others: &mut BTreeSet<PathBuf>) -> Result<MachineConfig, DirectoryError> {
        let asked = RefCell::new(BTreeSet::new());
        let loaded = self.contents.read(|remote| self.load_with(remote, &mut asked.borrow_mut())).await;
        *others = asked.into_inner();
        loaded?
    }

    fn load_with(
        &self,
        remote: &RemoteContents,
        others: &mut BTreeSet<PathBuf>,
    ) -> Result<MachineConfig, UnresolvedConfig<DirectoryError>> {
        let local = local_files(&self.path);
        let trusted = config_files(&self.path).and_then(|files| ensure_trusted(&files).map(|()| files));
        let loaded = trusted
            .map_err(UnresolvedConfig::from)
            .and_then(|files| load(&self.path, &files, ReferencedContents { local: &local, remote }));
        others.extend(local.directories());
        if let Err(UnresolvedConfig::Refused(DirectoryError::Untrusted(error))) = &loaded {
            others.insert(directory_of(error.path()));
        }
        loaded
    }

    /// Report the config or the error. Returns the time after which a server wants to be asked again, if one has to be.
    fn report(&mut self, loaded: Result<MachineConfig, DirectoryError>) -> Option<Duration> {
        let retry = match &loaded {
            Err(DirectoryError::Contents(error)) => Some(error.retry_after()),
            _ => None,
        };
        let (desired, trouble) = match loaded {
            Ok(config) => (Some(config_ref(&config)), None),
            Err(error) => (None, Some(chain(&error))),
        };
        self.send(SourceEvent::SourceError(trouble));
        // The last desired config stays in force while the files are missing or invalid.
        if let Some(desired) = desired.filter(|desired| self.last.as_ref() != Some(desired)) {
            self.last = Some(desired.clone());
            self.send(SourceEvent::DesiredChanged(desired));
        }
        retry
    }

    /// Watch every directory on the path to the files, through symbolic links: Kubernetes replaces the
    /// contents of a volume by renaming a link on the way.
    fn watch(&self, watch: &mut FileWatch) -> io::Result<()> {
        let mut path = std::path::absolute(&self.path)?;
        for _ in 0..LINKS {
            let directory = nearest_directory(path.parent().unwrap_or(Path::new("/")));
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
