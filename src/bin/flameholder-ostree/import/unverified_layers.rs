//! Record of the layers that an import has not verified yet. ostree-ext stores a layer under its digest while it reads
//! it, and asks skopeo only afterwards if the bytes had that digest: a corrupt layer that stayed in the repository would
//! be taken for the right one by the next import, which fetches no layer that is there.
//!
//! Layers that were verified before an import was interrupted stay, and are not fetched again.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use ostree_ext::container::store::PreparedImport;
use ostree_ext::gio::Cancellable;
use ostree_ext::ostree::{self, RepoListRefsExtFlags};
use rustix::fs::{AtFlags, Mode, OFlags, fsync, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// Directory in the repository that libostree leaves to other programs.
const EXTENSIONS: &str = "extensions";
/// Directory of the record, relative to the repository.
const DIRECTORY: &str = "extensions/flameholder";
/// The record, relative to the repository: a line for each layer of the import, which is its ref, and another one after
/// its verification.
const RECORD: &str = "extensions/flameholder/unverified-layers";
/// Begin of the line of a verified layer.
const VERIFIED: &str = "verified ";
/// Refs of layers, and the directory that holds them.
const LAYERS: &str = "ostree/container/blob";

/// Record of a running import.
#[derive(Debug)]
pub(crate) struct UnverifiedLayers<'a> {
    repo: &'a ostree::Repo,
    record: File,
    /// Digest and ref of each layer.
    layers: Vec<(String, String)>,
}

impl<'a> UnverifiedLayers<'a> {
    /// Record the layers that `import` will store. The record is on the disk when this returns.
    pub(crate) fn record(repo: &'a ostree::Repo, import: &PreparedImport) -> anyhow::Result<Self> {
        let missing = import.all_layers().filter(|layer| layer.commit.is_none());
        let layers: Vec<_> =
            missing.map(|layer| (layer.layer().digest().to_string(), layer.ostree_ref.clone())).collect();
        let written = write(repo, layers.iter().map(|(_, name)| name.as_str()));
        let record = written.with_context(|| in_repository("recording the layers to verify"))?;
        Ok(Self { repo, record, layers })
    }

    /// Keep the layer with this digest, which skopeo has verified. A line that a power cut loses costs a fetch only.
    pub(crate) fn keep(&mut self, digest: &str) -> anyhow::Result<()> {
        for (_, name) in self.layers.iter().filter(|(layer, _)| layer == digest) {
            let written = writeln!(self.record, "{VERIFIED}{name}");
            written.with_context(|| in_repository("recording a verified layer"))?;
        }
        Ok(())
    }

    /// Remove the record after all layers have been verified.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        remove(self.repo)
    }
}

/// Remove the layers that an import left without verification, and its record.
pub(crate) fn discard(repo: &ostree::Repo) -> anyhow::Result<()> {
    if remove_layers(repo)? {
        remove(repo)?;
    }
    Ok(())
}

/// Remove the layers that an import left without verification. Returns false if there is no record.
///
/// The record stays: a thread of an import that was given up may still be writing.
pub(crate) fn remove_layers(repo: &ostree::Repo) -> anyhow::Result<bool> {
    let record = read(repo).with_context(|| in_repository("reading the record of the layers to verify"))?;
    let Some(record) = record else { return Ok(false) };
    // A damaged record could lack any layer.
    let unverified = std::str::from_utf8(&record).ok().map(unverified);
    let stored = repo.list_refs_ext(Some(LAYERS), RepoListRefsExtFlags::empty(), Cancellable::NONE)?;
    let is_unverified = |name: &&String| unverified.as_ref().is_none_or(|refs| refs.contains(name.as_str()));
    let mut left: Vec<_> = stored.keys().filter(is_unverified).collect();
    left.sort();
    for name in &left {
        eprintln!("{name} was imported without verification, and is removed");
        repo.set_ref_immediate(None, name, None, Cancellable::NONE)?;
    }
    if !left.is_empty() {
        sync(repo, &format!("refs/heads/{LAYERS}")).context("removing unverified layers")?;
    }
    Ok(true)
}

/// Return the refs of a record that are not verified.
fn unverified(record: &str) -> BTreeSet<&str> {
    let (verified, layers): (Vec<_>, Vec<_>) = record.lines().partition(|line| line.starts_with(VERIFIED));
    let mut layers = BTreeSet::from_iter(layers);
    for name in verified {
        layers.remove(name.trim_start_matches(VERIFIED));
    }
    layers
}

fn write<'a>(repo: &ostree::Repo, layers: impl Iterator<Item = &'a str>) -> std::io::Result<File> {
    for (directory, around) in [(EXTENSIONS, "."), (DIRECTORY, EXTENSIONS)] {
        match mkdirat(repo.dfd_borrow(), directory, Mode::from_raw_mode(0o755)) {
            Ok(()) => sync(repo, around)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(repo.dfd_borrow(), RECORD, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(layers.flat_map(|name| [name, "\n"]).collect::<String>().as_bytes())?;
    file.sync_all()?;
    sync(repo, DIRECTORY)?;
    Ok(file)
}

fn read(repo: &ostree::Repo) -> std::io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut bytes = Vec::new();
    match openat(repo.dfd_borrow(), RECORD, flags, Mode::empty()) {
        Ok(file) => File::from(file).read_to_end(&mut bytes)?,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(bytes))
}

fn remove(repo: &ostree::Repo) -> anyhow::Result<()> {
    let removed = unlinkat(repo.dfd_borrow(), RECORD, AtFlags::empty()).map_err(Into::into);
    removed
        .and_then(|()| sync(repo, DIRECTORY))
        .with_context(|| in_repository("removing the record of the layers to verify"))
}

/// Name the record in an error.
fn in_repository(doing: &str) -> String {
    format!("{doing} ({RECORD} in the repository)")
}

fn sync(repo: &ostree::Repo, directory: &str) -> std::io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    fsync(openat(repo.dfd_borrow(), directory, flags, Mode::empty())?)?;
    Ok(())
}
