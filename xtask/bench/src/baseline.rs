//! The baselines: the simplest programs that do the same to the disk.
//!
//! Each is a release build and a process of its own, as flameholder is, so that both pay for their start and
//! a tracer can run either.

use std::collections::BTreeSet;
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
    /// Write all files beside their destinations, fsync them in parallel, rename all, fsync the directories.
    Batch,
    /// Read each file and hash it with SHA-256.
    Hash,
}

impl BaselineWork {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Batch => "batch",
            Self::Hash => "hash",
        }
    }
}

/// Do the work.
///
/// # Errors
/// A file cannot be read or written.
pub fn run(args: &BaselineArgs) -> Result<()> {
    let paths: Vec<PathBuf> = (0..args.files).map(|index| args.root.join(contents::path(index))).collect();
    match args.work {
        BaselineWork::Rewrite => each(&paths, |index, path| {
            write_beside(path, index, args.edition)?.sync_all()?;
            std::fs::rename(beside(path), path)
        }),
        BaselineWork::Batch => {
            each(&paths, |index, path| write_beside(path, index, args.edition).map(drop))?;
            sync_all(&paths.iter().map(|path| beside(path)).collect::<Vec<_>>())?;
            each(&paths, |_, path| std::fs::rename(beside(path), path))?;
            let directories: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
            sync_all(&directories.into_iter().map(Path::to_owned).collect::<Vec<_>>())
        }
        BaselineWork::Hash => {
            let mut digest = Sha256::new();
            each(&paths, |_, path| std::fs::read(path).map(|bytes| digest.update(Sha256::digest(bytes))))?;
            println!("{:x}", digest.finalize());
            Ok(())
        }
    }
}

fn each(paths: &[PathBuf], mut act: impl FnMut(u32, &Path) -> std::io::Result<()>) -> Result<()> {
    let mut numbered = (0..).zip(paths);
    numbered.try_for_each(|(index, path)| act(index, path).with_context(|| path.display().to_string()))
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

/// Write as the machine-config-daemon does (`renameio`), which does not sync the directory, so that the rename may be
/// lost.
fn write_beside(path: &Path, index: u32, edition: TreeEdition) -> std::io::Result<File> {
    let mut file = File::create(beside(path))?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(contents::contents(index, edition).as_bytes())?;
    fchown(&file, Some(0), Some(0))?;
    Ok(file)
}

/// Flush files and directories, as many at a time as flameholder does.
fn sync_all(paths: &[PathBuf]) -> Result<()> {
    const THREADS: usize = 32;
    let share = paths.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        let sync = |path: &PathBuf| File::open(path)?.sync_all();
        let threads: Vec<_> =
            paths.chunks(share).map(|some| scope.spawn(move || some.iter().try_for_each(sync))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a flush does not panic"))
    })
    .context("flushing")
}
