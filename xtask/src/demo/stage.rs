//! The directory in which the demo plays, and how it speaks.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::boot_entry::BootEntry;
use crate::invocation;
use crate::workspace::Workspace;

/// A temporary directory, the executables to run in it, and the style of headings.
///
/// Dropping it removes the directory; [`Stage::strike`] does so too and reports failure.
#[derive(Debug)]
pub struct Stage<'w> {
    workspace: &'w Workspace,
    directory: TempDir,
    bold: bool,
}

impl<'w> Stage<'w> {
    /// Makes the directory.
    ///
    /// # Errors
    /// The temporary directory cannot be made.
    pub fn set(workspace: &'w Workspace) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("hostwright-demo-")
            .tempdir()
            .context("making the demo's directory")?;
        let bold = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Self {
            workspace,
            directory,
            bold,
        })
    }

    /// The path of `name` in the demo's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Says what the next commands show.
    pub fn heading(&self, title: &str, text: &str) {
        if self.bold {
            println!("\n\x1b[1m== {title}\x1b[0m");
        } else {
            println!("\n== {title}");
        }
        println!("{text}\n");
    }

    /// Shows and runs one of hostwright's verbs.
    ///
    /// # Errors
    /// It cannot be started or fails.
    pub fn hostwright(&self, verb: &str, arguments: &[&str]) -> Result<()> {
        self.run("hostwright", &[&[verb], arguments].concat())
    }

    /// Shows and runs a release executable in the demo's directory.
    ///
    /// # Errors
    /// It cannot be started or fails.
    pub fn run(&self, executable: &str, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.workspace.executable(executable));
        command.args(arguments).current_dir(self.directory.path());
        println!("$ {}", invocation::shown(&command));
        invocation::run(&mut command)?;
        println!();
        Ok(())
    }

    /// The boot entry that the next boot takes.
    ///
    /// # Errors
    /// The sysroot's boot menu cannot be read.
    pub fn boots_next(&self) -> Result<BootEntry> {
        let entries = BootEntry::load_all(&self.sysroot())?;
        entries.into_iter().next().context("the boot menu is empty")
    }

    /// Shows the boot entries, the next boot's first.
    ///
    /// # Errors
    /// The sysroot's boot menu cannot be read.
    pub fn print_boot_menu(&self) -> Result<()> {
        println!("$ cat {}/boot/loader/entries/*.conf", super::SYSROOT);
        for entry in BootEntry::load_all(&self.sysroot())? {
            println!("{}", entry.text);
        }
        Ok(())
    }

    /// Removes the directory, or leaves it and says where it is.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn strike(mut self, keep: bool) -> Result<()> {
        if keep {
            self.directory.disable_cleanup(true);
            println!("Kept: {}", self.directory.path().display());
            return Ok(());
        }
        release_deployments(&self.sysroot())?;
        self.directory
            .close()
            .context("removing the demo's directory")
    }

    fn sysroot(&self) -> PathBuf {
        self.path(super::SYSROOT)
    }
}

/// Clears the immutable attribute that libostree sets on each deployment's root.
fn release_deployments(sysroot: &Path) -> Result<()> {
    let stateroots = sysroot.join("ostree/deploy");
    if !stateroots.exists() {
        return Ok(());
    }
    for stateroot in directories(&stateroots)? {
        for deployment in directories(&stateroot.join("deploy"))? {
            invocation::run(Command::new("chattr").arg("-i").arg(deployment))?;
        }
    }
    Ok(())
}

fn directories(parent: &Path) -> Result<Vec<PathBuf>> {
    let listing = parent
        .read_dir()
        .with_context(|| format!("reading {}", parent.display()))?;
    let paths = listing.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}
