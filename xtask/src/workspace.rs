//! Where the sources and what is built from them are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::invocation;

/// The project's root directory and where its executables are built.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Finds the directories from where this executable was built.
    ///
    /// # Errors
    /// This executable lies outside cargo's layout, TARGET/PROFILE/xtask.
    pub fn locate() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
        // The target directory has many owners (environment, cargo's configuration, a target
        // triple); the executable itself has already been put into the right one.
        let executable = std::env::current_exe().context("finding this executable")?;
        let target =
            executable.ancestors().nth(2).context("this executable is outside a target directory")?;
        Ok(Self { root: root.to_owned(), target: target.to_owned() })
    }

    /// The directory of the workspace's `Cargo.toml`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo puts what it builds.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The release build of the executable `name`.
    pub fn executable(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// A cargo command in the root directory.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// Builds the release executables and the generator of the demo's host.
    ///
    /// # Errors
    /// The build fails.
    pub fn build_release(&self) -> Result<()> {
        let packages = ["flameholder", "osimage", "rpmostreed"].map(|name| ["--package", name]).concat();
        invocation::run(self.cargo(&["build", "--release", "--bins"]).args(packages))
    }
}
