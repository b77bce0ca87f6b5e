//! Two trees of one shape on one file system: flameholder changes one, the baseline the other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Bench;
use super::baseline::Work;
use super::contents::{self, Edition};
use super::document::Shape;
use super::stopwatch;
use super::turns::{Samples, Side, in_turn};

/// Accounts, and directories that every host has: without them flameholder would have to make them.
const DIRECTORIES: [&str; 6] =
    ["etc/machine-config-daemon", "run", "usr/etc", "usr/lib", "var/home", "var/lib"];
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:core:/var/home/core:/bin/bash\n"),
    ("etc/group", "root:x:0:\ncore:x:1000:\n"),
    ("usr/lib/os-release", "ID=rhcos\nVARIANT_ID=coreos\nVERSION_ID=\"4.20\"\n"),
];

/// Both trees, and the configs for them, in a directory that goes with them.
#[derive(Debug)]
pub struct Pair<'b> {
    bench: &'b Bench<'b>,
    directory: TempDir,
    shape: Shape,
    /// What both trees hold.
    at: Edition,
    /// Which trees these are: each round has its own.
    trees: u32,
}

impl<'b> Pair<'b> {
    /// Makes the trees, both holding edition A.
    ///
    /// # Errors
    /// They cannot be written, or flameholder refuses.
    pub fn prepare(bench: &'b Bench<'b>, shape: Shape) -> Result<Self> {
        let mut pair = Self { bench, directory: bench.directory()?, shape, at: Edition::A, trees: 0 };
        spread(pair.directory())?;
        for edition in [Edition::A, Edition::B] {
            std::fs::write(pair.config(edition), shape.document(edition)?).context("writing a config")?;
        }
        pair.renew()?;
        Ok(pair)
    }

    /// Makes other trees, which hold what these do. A file system that was just changed is slower than a host's is
    /// when an update comes: ext4 passes over each inode that was deleted within the last minutes when it looks for a
    /// free one.
    fn renew(&mut self) -> Result<()> {
        self.trees += 1;
        for side in [Side::Ours, Side::Baseline] {
            populate(&self.root(side)).context("making a tree")?;
        }
        stopwatch::time(&mut self.change(Side::Ours, self.at))?;
        // All files, whatever an edition changes.
        stopwatch::time(&mut self.baseline(Work::Rewrite, Side::Baseline, self.shape.files, self.at))?;
        Ok(())
    }

    /// Where both trees are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The edition that both trees hold.
    pub fn at(&self) -> Edition {
        self.at
    }

    /// Takes both trees from one edition to the other, new trees in each round, by `run`, and looks at the result.
    ///
    /// # Errors
    /// `run` fails, or a tree does not hold what it is to hold.
    pub fn alternate<T>(&mut self, run: impl Fn(&Self, Side, Edition) -> Result<T>) -> Result<Samples<T>> {
        let (next, rounds) = (self.at.other(), self.bench.rounds());
        let mut begun = 0;
        let samples = in_turn(rounds, |round, side| {
            if round > begun {
                eprintln!("  round {round} of {rounds}");
                begun = round;
                self.renew()?;
            }
            self.settle()?;
            run(self, side, next)
        })?;
        self.at = next;
        self.ensure_written()?;
        Ok(samples)
    }

    /// What takes one of the trees to `edition`.
    pub fn change(&self, side: Side, edition: Edition) -> Command {
        match side {
            Side::Ours => self.flameholder("apply", Some(edition)),
            Side::Baseline => self.baseline(Work::Rewrite, side, self.shape.changed_files(), edition),
        }
    }

    /// One of flameholder's verbs on our tree.
    pub fn flameholder(&self, verb: &str, desired: Option<Edition>) -> Command {
        let mut command = self.bench.executable("flameholder");
        command.arg(verb).arg("--root").arg(self.root(Side::Ours));
        if let Some(edition) = desired {
            command.arg("--desired").arg(self.config(edition));
        }
        command
    }

    /// Reading and hashing all files of our tree.
    pub fn hash(&self) -> Command {
        self.baseline(Work::Hash, Side::Ours, self.shape.files, self.at)
    }

    fn baseline(&self, work: Work, side: Side, files: u32, edition: Edition) -> Command {
        let mut command = self.bench.executable("xtask");
        command.args(["baseline", work.word(), "--edition", edition.word()]);
        command.args(["--files", &files.to_string(), "--root"]).arg(self.root(side));
        command
    }

    fn root(&self, side: Side) -> PathBuf {
        let name = match side {
            Side::Ours => "ours",
            Side::Baseline => "baseline",
        };
        self.directory().join(format!("{name}-{}", self.trees))
    }

    fn config(&self, edition: Edition) -> PathBuf {
        self.directory().join(format!("{}.json", edition.word()))
    }

    /// Writes what one side has left unwritten, so that the other does not pay for it.
    fn settle(&self) -> Result<()> {
        let directory = File::open(self.directory()).context("opening the trees' directory")?;
        rustix::fs::syncfs(directory).context("writing what is unwritten")
    }

    fn ensure_written(&self) -> Result<()> {
        for index in 0..self.shape.files {
            let expected = contents::contents(index, self.shape.edition_of(index, self.at));
            for side in [Side::Ours, Side::Baseline] {
                let path = self.root(side).join(contents::path(index));
                let found = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                ensure!(found == expected, "{} does not hold what was written last", path.display());
            }
        }
        Ok(())
    }
}

/// Asks the file system to keep the trees in `directory` apart, each with inodes of its own. One that cannot is as
/// good as it is.
fn spread(directory: &Path) -> Result<()> {
    let directory = File::open(directory).context("opening the trees' directory")?;
    if let Ok(flags) = rustix::fs::ioctl_getflags(&directory)
        && rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR).is_err()
    {
        eprintln!("  the trees may lie close together: this file system keeps no directories apart");
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
