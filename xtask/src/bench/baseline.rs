//! What the figures are compared with: the simplest program that does the same to the disk.
//!
//! A process of its own and a release build, as flameholder is, so that both pay for starting and a tracer can
//! run either.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};

use super::contents::{self, Edition};

#[derive(Debug, Args)]
pub struct BaselineArgs {
    work: Work,
    /// The root of the tree.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// How many files, counted from the first.
    #[arg(long, value_name = "N")]
    files: u32,
    /// What they hold afterwards.
    #[arg(long)]
    edition: Edition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Write each file beside its destination, fsync it, rename it; one after the other.
    Rewrite,
    /// Read each file and hash it with SHA-256.
    Hash,
}

impl Work {
    /// As the command line spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Hash => "hash",
        }
    }
}

/// Does the work.
///
/// # Errors
/// A file cannot be read or written.
pub fn run(args: &BaselineArgs) -> Result<()> {
    let mut digest = Sha256::new();
    for index in 0..args.files {
        let path = args.root.join(contents::path(index));
        match args.work {
            Work::Rewrite => rewrite(&path, contents::contents(index, args.edition).as_bytes()),
            Work::Hash => std::fs::read(&path).map(|bytes| digest.update(Sha256::digest(bytes))),
        }
        .with_context(|| path.display().to_string())?;
    }
    if args.work == Work::Hash {
        println!("{:x}", digest.finalize());
    }
    Ok(())
}

/// The machine-config-daemon's way (`renameio`): the directory is not synced, so the rename itself may be lost.
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
