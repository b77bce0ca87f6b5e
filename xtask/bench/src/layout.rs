//! The directories of the sources and of the release build.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The workspace's root, and the directory of the executables under test.
#[derive(Debug)]
pub struct BuildLayout {
    root: PathBuf,
    executables: PathBuf,
}

impl BuildLayout {
    /// Find the executables beside this one, which `cargo xtask bench` builds with them.
    ///
    /// # Errors
    /// `flameholder` is not beside this executable.
    pub fn locate() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let root = root.context("the sources lie outside a workspace")?;
        let own = std::env::current_exe().context("finding this executable")?;
        let executables = own.parent().context("this executable has no parent directory")?;
        ensure!(
            executables.join("flameholder").is_file(),
            "{} has no flameholder: run `cargo xtask bench`, which builds it",
            executables.display()
        );
        Ok(Self { root: root.to_owned(), executables: executables.to_owned() })
    }

    /// The directory of the workspace's `Cargo.toml`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the executables under test.
    pub fn executables(&self) -> &Path {
        &self.executables
    }

    /// The executable `name`.
    pub fn executable(&self, name: &str) -> PathBuf {
        self.executables.join(name)
    }
}
