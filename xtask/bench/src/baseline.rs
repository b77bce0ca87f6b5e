//! The baselines: the simplest programs that do the same to the disk.
//!
//! Each is a release build and a process of its own, as flameholder is, so that both pay for their start and
//! a tracer can run either.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};

use crate::trees::contents::{self, TreeEdition};

/// The work of a baseline and the tree that it works on.
#[derive(Debug, Args)]
pub struct BaselineArgs {
    work: BaselineWork,
    /// The root of the tree.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The number of files, counted from the first.
    #[arg(long, value_name = "N")]
    files: u32,
    /// The contents that they have afterwards.
    #[arg(long)]
    edition: TreeEdition,
}

/// The kinds of work that figures are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BaselineWork {
    /// Write each file beside its destination, fsync it, rename it; one after the other.
    Rewrite,
    /// Read each file and hash it with SHA-256.
    Hash,
}

impl BaselineWork {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Hash => "hash",
        }
    }
}

/// Do the work.
///
/// # Errors
/// A file cannot be read or written.
pub fn run(args: &BaselineArgs) -> Result<()> {
    let mut digest = Sha256::new();
    for index in 0..args.files {
        let path = args.root.join(contents::path(index));
        match args.work {
            BaselineWork::Rewrite => rewrite(&path, contents::contents(index, args.edition).as_bytes()),
            BaselineWork::Hash => std::fs::read(&path).map(|bytes| digest.update(Sha256::digest(bytes))),
        }
        .with_context(|| path.display().to_string())?;
    }
    if args.work == BaselineWork::Hash {
        println!("{:x}", digest.finalize());
    }
    Ok(())
}

/// Write as the machine-config-daemon does (`renameio`): without syncing the directory, so that the rename
/// may be lost.
fn rewrite(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("tmp");
    let mut file = File::create(&beside)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(contents)?;
    fchown(&file, Some(0), Some(0))?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&beside, path)
}
