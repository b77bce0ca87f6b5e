//! Two trees of one shape on one file system: flameholder changes one, the baseline the other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::contents::{self, TreeEdition};
use super::document::ConfigShape;
use crate::baseline::BaselineWork;
use crate::turns::{PairSamples, PairSide, in_turn};
use crate::{BenchRun, stopwatch};

/// Directories and accounts that every host has, so that flameholder does not create them.
const DIRECTORIES: [&str; 6] =
    ["etc/machine-config-daemon", "run", "usr/etc", "usr/lib", "var/home", "var/lib"];
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:core:/var/home/core:/bin/bash\n"),
    ("etc/group", "root:x:0:\ncore:x:1000:\n"),
    ("usr/lib/os-release", "ID=rhcos\nVARIANT_ID=coreos\nVERSION_ID=\"4.20\"\n"),
];

/// Both trees and the configs for them, in a temporary directory.
#[derive(Debug)]
pub struct TreePair<'b> {
    bench: &'b BenchRun,
    directory: TempDir,
    shape: ConfigShape,
    /// The way in which the baseline changes its tree.
    writer: BaselineWork,
    /// The edition of both trees.
    at: TreeEdition,
    /// The number of this pair: each round has its own trees.
    trees: u32,
}

impl<'b> TreePair<'b> {
    /// Create the trees, both in edition A.
    ///
    /// # Errors
    /// A tree cannot be written, or flameholder refuses the config.
    pub fn prepare(bench: &'b BenchRun, shape: ConfigShape) -> Result<Self> {
        Self::prepare_against(bench, shape, BaselineWork::Rewrite)
    }

    /// Create the trees for a baseline that writes in this way.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_against(bench: &'b BenchRun, shape: ConfigShape, writer: BaselineWork) -> Result<Self> {
        let (directory, at) = (bench.directory()?, TreeEdition::A);
        let mut pair = Self { bench, directory, shape, writer, at, trees: 0 };
        spread(pair.directory())?;
        for edition in [TreeEdition::A, TreeEdition::B] {
            std::fs::write(pair.config(edition), shape.document(edition)?).context("writing a config")?;
        }
        pair.renew()?;
        Ok(pair)
    }

    /// Create new trees of the same edition. A file system that was just changed is slower than that of a
    /// host at an update: while ext4 searches a free inode, it skips those that were deleted within the last
    /// minutes.
    fn renew(&mut self) -> Result<()> {
        self.trees += 1;
        for side in [PairSide::Ours, PairSide::Baseline] {
            populate(&self.root(side)).context("creating a tree")?;
        }
        stopwatch::time(&mut self.change(PairSide::Ours, self.at))?;
        // All files, not only those that differ between the editions.
        stopwatch::time(&mut self.baseline(
            BaselineWork::Rewrite,
            PairSide::Baseline,
            self.shape.files,
            self.at,
        ))?;
        Ok(())
    }

    /// The directory of both trees.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The edition of both trees.
    pub fn at(&self) -> TreeEdition {
        self.at
    }

    /// Change both trees from one edition to the other by `run`, with new trees in each round, and compare
    /// the result with the expected contents.
    ///
    /// # Errors
    /// `run` fails, or a file has other contents than the last change wrote.
    pub fn alternate<T>(
        &mut self,
        run: impl Fn(&Self, PairSide, TreeEdition) -> Result<T>,
    ) -> Result<PairSamples<T>> {
        let (next, rounds) = (self.at.other(), self.bench.rounds());
        let mut begun = 0;
        let samples = in_turn(rounds, |round, side| {
            if round > begun {
                eprintln!("  round {round} of {rounds}");
                begun = round;
                self.renew()?;
            }
            self.flush()?;
            run(self, side, next)
        })?;
        self.at = next;
        self.ensure_written()?;
        Ok(samples)
    }

    /// Return the command that changes one of the trees to `edition`.
    pub fn change(&self, side: PairSide, edition: TreeEdition) -> Command {
        match side {
            PairSide::Ours => self.flameholder("apply", Some(edition)),
            PairSide::Baseline => self.baseline(self.writer, side, self.shape.changed_files(), edition),
        }
    }

    /// Return a `flameholder` command on our tree.
    pub fn flameholder(&self, verb: &str, desired: Option<TreeEdition>) -> Command {
        let mut command = self.bench.executable("flameholder");
        command.arg(verb).arg("--root").arg(self.root(PairSide::Ours));
        if let Some(edition) = desired {
            command.arg("--desired").arg(self.config(edition));
        }
        command
    }

    /// Return the command that reads and hashes all files of our tree.
    pub fn hash(&self) -> Command {
        self.baseline(BaselineWork::Hash, PairSide::Ours, self.shape.files, self.at)
    }

    fn baseline(&self, work: BaselineWork, side: PairSide, files: u32, edition: TreeEdition) -> Command {
        let mut command = self.bench.executable("bench");
        command.args(["baseline", work.word(), "--edition", edition.word()]);
        command.args(["--files", &files.to_string(), "--root"]).arg(self.root(side));
        command
    }

    fn root(&self, side: PairSide) -> PathBuf {
        let name = match side {
            PairSide::Ours => "ours",
            PairSide::Baseline => "baseline",
        };
        self.directory().join(format!("{name}-{}", self.trees))
    }

    fn config(&self, edition: TreeEdition) -> PathBuf {
        self.directory().join(format!("{}.json", edition.word()))
    }

    /// Flush the dirty pages that one side left, so that the other does not pay for them.
    fn flush(&self) -> Result<()> {
        let directory = File::open(self.directory()).context("opening the trees' directory")?;
        rustix::fs::syncfs(directory).context("flushing the file system")
    }

    fn ensure_written(&self) -> Result<()> {
        for index in 0..self.shape.files {
            let expected = contents::contents(index, self.shape.edition_of(index, self.at));
            for side in [PairSide::Ours, PairSide::Baseline] {
                let path = self.root(side).join(contents::path(index));
                let found = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                ensure!(
                    found == expected,
                    "{} has other contents than the last change wrote",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

/// Ask the file system to spread the trees in `directory` over its block groups; warn if it cannot.
fn spread(directory: &Path) -> Result<()> {
    let directory = File::open(directory).context("opening the trees' directory")?;
    if let Ok(flags) = rustix::fs::ioctl_getflags(&directory)
        && rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR).is_err()
    {
        eprintln!("  this file system has no top-level directory flag: the trees may share block groups");
    }
    Ok(())
}

fn populate(root: &Path) -> std::io::Result<()> {
    let parts = (0..contents::DIRECTORIES).map(contents::directory);
    for directory in DIRECTORIES.into_iter().map(str::to_owned).chain(parts) {
        std::fs::create_dir_all(root.join(directory))?;
    }
    FILES.iter().try_for_each(|(path, text)| std::fs::write(root.join(path), text))
}
