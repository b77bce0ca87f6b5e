//! Read access to the files of an ext4 file system that is not mounted.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use ext4_view::{Ext4, Ext4Error, Ext4Read};

/// A file system whose superblock is read as cleanly unmounted, so that the library ignores its journal.
struct WithoutJournal(File);

/// Offset of the superblock flag `INCOMPAT_RECOVER`, which requests a replay of the journal, and its bit.
const NEEDS_RECOVERY: (u64, u8) = (1024 + 0x60, 0x4);

impl Ext4Read for WithoutJournal {
    fn read(&mut self, start: u64, to: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.read_exact_at(to, start)?;
        let (at, bit) = NEEDS_RECOVERY;
        let within = at.checked_sub(start).and_then(|at| to.get_mut(usize::try_from(at).ok()?));
        if let Some(byte) = within {
            *byte &= !bit;
        }
        Ok(())
    }
}

/// A directory of a file system. Absolute symbolic links are resolved from the root of the file system, not
/// from this directory.
#[derive(Debug, Clone)]
pub struct Tree {
    system: Ext4,
    top: String,
}

impl Tree {
    /// Open the file system in `image`.
    pub(super) fn open(image: &Path) -> Result<Self> {
        Self::load(image, |file| Box::new(file))
    }

    /// Open the file system in `image`, and ignore its journal.
    pub(super) fn without_journal(image: &Path) -> Result<Self> {
        Self::load(image, |file| Box::new(WithoutJournal(file)))
    }

    fn load(image: &Path, reader: fn(File) -> Box<dyn Ext4Read>) -> Result<Self> {
        let file = File::open(image).with_context(|| format!("opening {}", image.display()))?;
        let system = Ext4::load(reader(file));
        let system = system.with_context(|| format!("reading the file system {}", image.display()))?;
        Ok(Self { system, top: String::new() })
    }

    /// Return the subdirectory `path`, with its symbolic links resolved now.
    ///
    /// # Errors
    /// The path does not exist.
    pub fn at(&self, path: &str) -> Result<Self> {
        let full = self.full(path);
        let top = self.system.canonicalize(full.as_str()).with_context(|| format!("finding {full}"))?;
        Ok(Self { system: self.system.clone(), top: top.to_str()?.to_owned() })
    }

    /// Return the path of the directory on its file system.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.top
    }

    /// Read a file.
    ///
    /// # Errors
    /// The file does not exist or cannot be read.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let full = self.full(path);
        self.system.read(full.as_str()).with_context(|| format!("reading {full}"))
    }

    /// Read a text file, or return `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let full = self.full(path);
        match self.system.read_to_string(full.as_str()) {
            Ok(text) => Ok(Some(text)),
            Err(Ext4Error::NotFound) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {full}")),
        }
    }

    /// Return true if the path exists, with symbolic links followed.
    ///
    /// # Errors
    /// The file system cannot be read.
    pub fn has(&self, path: &str) -> Result<bool> {
        let full = self.full(path);
        self.system.exists(full.as_str()).with_context(|| format!("finding {full}"))
    }

    /// Return the type and permission bits of a file, with symbolic links followed, or `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// The file system cannot be read.
    pub fn mode(&self, path: &str) -> Result<Option<u32>> {
        let full = self.full(path);
        match self.system.metadata(full.as_str()) {
            Ok(metadata) => Ok(Some(u32::from(metadata.mode()))),
            Err(Ext4Error::NotFound) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading the mode of {full}")),
        }
    }

    /// Return the target of a symbolic link.
    ///
    /// # Errors
    /// The path is no symbolic link.
    pub fn link(&self, path: &str) -> Result<String> {
        let full = self.full(path);
        let link =
            self.system.read_link(full.as_str()).with_context(|| format!("reading the link {full}"))?;
        Ok(link.to_str()?.to_owned())
    }

    /// Return the sorted names in a directory.
    ///
    /// # Errors
    /// The path is no directory, or cannot be read.
    pub fn names(&self, path: &str) -> Result<Vec<String>> {
        let full = self.full(path);
        let entries = self.system.read_dir(full.as_str()).with_context(|| format!("listing {full}"))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("listing {full}"))?;
            let name = entry.file_name().as_str()?.to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn full(&self, path: &str) -> String {
        format!("{}/{}", self.top.trim_end_matches('/'), path.trim_start_matches('/'))
    }
}
