//! Files of a file system that is not mounted.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use ext4_view::{Ext4, Ext4Error, Ext4Read};

/// A file system that says it was unmounted properly: so its journal is of no interest.
struct WithoutJournal(File);

/// Where its first block says that the journal has to be replayed, and the bit that says so.
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

/// A directory and what is below it, to read. Symbolic links are followed as on the file system
/// itself: an absolute one begins at its top and not at this directory.
#[derive(Debug, Clone)]
pub struct Tree {
    system: Ext4,
    top: String,
}

impl Tree {
    /// The whole file system in `image`.
    pub(super) fn open(image: &Path) -> Result<Self> {
        Self::whole(image, |file| Box::new(file))
    }

    /// The same without what is in its journal only.
    pub(super) fn without_journal(image: &Path) -> Result<Self> {
        Self::whole(image, |file| Box::new(WithoutJournal(file)))
    }

    fn whole(image: &Path, reader: fn(File) -> Box<dyn Ext4Read>) -> Result<Self> {
        let file = File::open(image).with_context(|| format!("opening {}", image.display()))?;
        let system = Ext4::load(reader(file));
        let system = system.with_context(|| format!("reading the file system {}", image.display()))?;
        Ok(Self { system, top: String::new() })
    }

    /// The directory `path` of this one, which leads to it by its links now.
    ///
    /// # Errors
    /// There is none.
    pub fn at(&self, path: &str) -> Result<Self> {
        let full = self.full(path);
        let top = self.system.canonicalize(full.as_str()).with_context(|| format!("looking for {full}"))?;
        Ok(Self { system: self.system.clone(), top: top.to_str()?.to_owned() })
    }

    /// Where it lies on its file system.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.top
    }

    /// The content of a file.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let full = self.full(path);
        self.system.read(full.as_str()).with_context(|| format!("reading {full}"))
    }

    /// The content of a file that is text; none where there is no file.
    ///
    /// # Errors
    /// It cannot be read, or is no text.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let full = self.full(path);
        match self.system.read_to_string(full.as_str()) {
            Ok(text) => Ok(Some(text)),
            Err(Ext4Error::NotFound) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {full}")),
        }
    }

    /// Whether something is there, behind all links.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn has(&self, path: &str) -> Result<bool> {
        let full = self.full(path);
        self.system.exists(full.as_str()).with_context(|| format!("looking for {full}"))
    }

    /// The type and permission bits of what is there, behind all links; none where nothing is.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn mode(&self, path: &str) -> Result<Option<u32>> {
        let full = self.full(path);
        match self.system.metadata(full.as_str()) {
            Ok(metadata) => Ok(Some(u32::from(metadata.mode()))),
            Err(Ext4Error::NotFound) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("looking at {full}")),
        }
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// There is none.
    pub fn link(&self, path: &str) -> Result<String> {
        let full = self.full(path);
        let link =
            self.system.read_link(full.as_str()).with_context(|| format!("reading the link {full}"))?;
        Ok(link.to_str()?.to_owned())
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// It is no directory, or cannot be read.
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
