//! Files of an artifact in memory: configs at the root, and the local files of Butane configs at any path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ArtifactError;
use crate::core::config::butane::{LocalEntry, LocalFileError, LocalFiles, LocalNode};
use crate::core::values::limits;

/// Beginning of the name of an entry that removes files of earlier layers (OCI image specification).
const WHITEOUT: &str = ".wh.";

/// Kind of an entry in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    /// Any other, by its name in messages.
    Other(&'static str),
}

/// File of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFile {
    pub path: String,
    pub is_executable: bool,
    /// In base64 where it is serialised.
    #[serde(serialize_with = "encode", deserialize_with = "decode")]
    pub contents: Vec<u8>,
}

fn encode<S: Serializer>(contents: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(contents))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Files of an artifact by path, within the limits on number and size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArtifactFiles {
    files: BTreeMap<String, ArtifactFile>,
    /// Bytes of all files that were added, replaced ones included.
    bytes: usize,
    /// Number of entries that were checked.
    entries: usize,
}

impl ArtifactFiles {
    /// Check an entry of an archive, and return the path of a file; `None` for a directory.
    pub fn entry(&mut self, path: &str, kind: EntryKind) -> Result<Option<String>, ArtifactError> {
        self.entries += 1;
        if self.entries > limits::STORAGE_ENTRIES {
            return Err(ArtifactError::Entries);
        }
        let plain = normalized(path).ok_or_else(|| ArtifactError::Path(path.to_owned()))?;
        let name = plain.rsplit('/').next().unwrap_or_default();
        if name.starts_with(WHITEOUT) {
            return Err(ArtifactError::Whiteout(plain));
        }
        match kind {
            EntryKind::Directory => Ok(None),
            EntryKind::Other(kind) => Err(ArtifactError::Kind { path: plain, kind }),
            EntryKind::File if plain.is_empty() => Err(ArtifactError::Path(path.to_owned())),
            EntryKind::File => Ok(Some(plain)),
        }
    }

    /// Bytes of which a reader of one more file needs no more to tell that it is too large.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        limits::DOCUMENT_BYTES.min(limits::INFLATED_BYTES.saturating_sub(self.bytes)) as u64 + 1
    }

    /// Add a file that must be the only one with its path.
    pub fn add(&mut self, file: ArtifactFile) -> Result<(), ArtifactError> {
        if self.files.contains_key(&file.path) {
            return Err(ArtifactError::Duplicate(file.path));
        }
        self.put(file)
    }

    /// Add the files of a later layer, which replace those of earlier layers.
    pub fn overlay(&mut self, layer: Self) -> Result<(), ArtifactError> {
        self.entries = self.entries.saturating_add(layer.entries);
        if self.entries > limits::STORAGE_ENTRIES {
            return Err(ArtifactError::Entries);
        }
        layer.files.into_values().try_for_each(|file| self.put(file))
    }

    /// Return an empty layer above this one, which shares its limits.
    #[must_use]
    pub fn next_layer(&self) -> Self {
        Self { files: BTreeMap::new(), bytes: self.bytes, entries: 0 }
    }

    fn put(&mut self, file: ArtifactFile) -> Result<(), ArtifactError> {
        if file.contents.len() > limits::DOCUMENT_BYTES {
            return Err(ArtifactError::FileSize { path: file.path });
        }
        self.bytes = self.bytes.saturating_add(file.contents.len());
        if self.bytes > limits::INFLATED_BYTES {
            return Err(ArtifactError::Size);
        }
        let mut above = Path::new(&file.path).ancestors().skip(1).filter_map(Path::to_str);
        let is_below_file = above.any(|directory| self.files.contains_key(directory));
        if is_below_file || self.below(&file.path).next().is_some() {
            return Err(ArtifactError::FileAndDirectory(file.path));
        }
        self.files.insert(file.path.clone(), file);
        if self.files.len() > limits::STORAGE_ENTRIES {
            return Err(ArtifactError::Entries);
        }
        Ok(())
    }

    /// Return all files, sorted by path.
    pub fn into_files(self) -> impl Iterator<Item = ArtifactFile> {
        self.files.into_values()
    }

    /// Return the contents of a file.
    #[must_use]
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(|file| file.contents.as_slice())
    }

    /// Return the files at the root, sorted by name.
    pub fn at_root(&self) -> impl Iterator<Item = &ArtifactFile> {
        self.files.values().filter(|file| !file.path.contains('/'))
    }

    /// Return the files below a directory, each with its path relative to it.
    fn below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (&'a str, &'a ArtifactFile)> {
        let from = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let start = from.clone();
        self.files
            .range(start..)
            .map_while(move |(path, file)| Some((path.strip_prefix(from.as_str())?, file)))
    }
}

/// The artifact's root is the directory of its local files.
impl LocalFiles for ArtifactFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, LocalFileError> {
        let plain = normalized(path).ok_or(LocalFileError::Outside)?;
        let file = self.files.get(&plain);
        file.map(|file| file.contents.clone()).ok_or_else(|| missing(path, "file"))
    }

    fn tree(&self, path: &str) -> Result<Vec<LocalEntry>, LocalFileError> {
        let plain = normalized(path).ok_or(LocalFileError::Outside)?;
        let mut directories = BTreeSet::new();
        let mut entries = Vec::new();
        for (path, file) in self.below(&plain) {
            for (end, _) in path.match_indices('/') {
                let above = &path[..end];
                if directories.insert(above) {
                    entries.push(LocalEntry { path: above.to_owned(), node: LocalNode::Directory });
                }
            }
            let ArtifactFile { contents, is_executable, .. } = file;
            let node = LocalNode::File { contents: contents.clone(), is_executable: *is_executable };
            entries.push(LocalEntry { path: path.to_owned(), node });
        }
        if entries.is_empty() { Err(missing(path, "directory with files")) } else { Ok(entries) }
    }
}

fn missing(path: &str, kind: &str) -> LocalFileError {
    LocalFileError::Unreadable(format!("the artifact has no {kind} {path:?}"))
}

/// Return the path relative to the root, with no `.` in it; empty for the root. `None` for one that leads out of it, or with
/// characters that no path of a file should have.
pub(super) fn normalized(path: &str) -> Option<String> {
    if path.len() > limits::KEY_BYTES || path.chars().any(char::is_control) {
        return None;
    }
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}
