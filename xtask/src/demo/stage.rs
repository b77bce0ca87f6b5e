//! The temporary directory of the demo, and its output.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::boot_entry::BootEntry;
use crate::invocation;
use crate::project_tree::ProjectTree;

/// The parent directory: libostree needs hard links and extended attributes, which not every `/tmp` has.
const PLACE: &str = "/var/tmp";

/// The temporary directory, the executables that run in it, and the style of headings.
///
/// [`DemoStage::remove`] removes the directory. Dropping it does so only while it contains no deployment.
#[derive(Debug)]
pub struct DemoStage<'w> {
    workspace: &'w ProjectTree,
    directory: TempDir,
    bold: bool,
}

impl<'w> DemoStage<'w> {
    /// Create the directory.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn create(workspace: &'w ProjectTree) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("flameholder-demo-")
            .tempdir_in(PLACE)
            .context("creating the demo's directory")?;
        let bold = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Self { workspace, directory, bold })
    }

    /// The path of `name` in the demo's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Print the title and the explanation of the next commands.
    pub fn heading(&self, title: &str, text: &str) {
        if self.bold {
            println!("\x1b[1m== {title}\x1b[0m");
        } else {
            println!("== {title}");
        }
        println!("{text}\n");
    }

    /// Print and run a `flameholder` command.
    ///
    /// # Errors
    /// The command cannot be started or fails.
    pub fn flameholder(&self, verb: &str, arguments: &[&str]) -> Result<()> {
        self.run("flameholder", &[&[verb], arguments].concat())
    }

    /// Print and run a release executable in the demo's directory.
    ///
    /// # Errors
    /// The executable cannot be started or fails.
    pub fn run(&self, executable: &str, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.workspace.executable(executable));
        command.args(arguments).current_dir(self.directory.path());
        println!("$ {}", invocation::shown(&command));
        invocation::run(&mut command)?;
        println!();
        Ok(())
    }

    /// Return the boot entry of the next boot.
    ///
    /// # Errors
    /// The boot entries of the sysroot cannot be read.
    pub fn boots_next(&self) -> Result<BootEntry> {
        let entries = BootEntry::load_all(&self.sysroot())?;
        entries.into_iter().next().context("the boot menu is empty")
    }

    /// Print the boot entries, that of the next boot first.
    ///
    /// # Errors
    /// The boot entries of the sysroot cannot be read.
    pub fn print_boot_menu(&self) -> Result<()> {
        println!("$ cat {}/boot/loader/entries/*.conf", super::SYSROOT);
        for entry in BootEntry::load_all(&self.sysroot())? {
            println!("{}", entry.text);
        }
        Ok(())
    }

    /// Remove the directory, or keep it and print its path.
    ///
    /// # Errors
    /// A file in it cannot be removed.
    pub fn remove(mut self, keep: bool) -> Result<()> {
        if keep {
            self.directory.disable_cleanup(true);
            println!("Kept: {}", self.directory.path().display());
            return Ok(());
        }
        // Deployments have the immutable flag, which a plain removal does not clear.
        let mut remove = Command::new(self.workspace.executable("osimage"));
        invocation::run(remove.arg("remove").arg(self.directory.path()))
            .context("removing the demo's directory")
    }

    fn sysroot(&self) -> PathBuf {
        self.path(super::SYSROOT)
    }
}
