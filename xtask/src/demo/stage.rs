//! The directory in which the demo plays, and how it speaks.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::boot_entry::BootEntry;
use crate::invocation;
use crate::workspace::Workspace;

/// libostree needs hard links and extended attributes, which not every `/tmp` has.
const PLACE: &str = "/var/tmp";

/// A temporary directory, the executables to run in it, and the style of headings.
///
/// [`Stage::strike`] removes the directory; dropping it does so only while no deployment is in it.
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
            .prefix("flameholder-demo-")
            .tempdir_in(PLACE)
            .context("making the demo's directory")?;
        let bold = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Self { workspace, directory, bold })
    }

    /// The path of `name` in the demo's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Says what the next commands show.
    pub fn heading(&self, title: &str, text: &str) {
        if self.bold {
            println!("\x1b[1m== {title}\x1b[0m");
        } else {
            println!("== {title}");
        }
        println!("{text}\n");
    }

    /// Shows and runs one of flameholder's verbs.
    ///
    /// # Errors
    /// It cannot be started or fails.
    pub fn flameholder(&self, verb: &str, arguments: &[&str]) -> Result<()> {
        self.run("flameholder", &[&[verb], arguments].concat())
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
        // Deployments are immutable to others.
        let mut remove = Command::new(self.workspace.executable("osimage"));
        invocation::run(remove.arg("remove").arg(self.directory.path()))
            .context("removing the demo's directory")
    }

    fn sysroot(&self) -> PathBuf {
        self.path(super::SYSROOT)
    }
}
