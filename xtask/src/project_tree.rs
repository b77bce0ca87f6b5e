//! The directories of the sources and of the build, and cargo commands in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::invocation;

/// The workspace's root and its target directory.
#[derive(Debug, Clone)]
pub struct ProjectTree {
    root: PathBuf,
    target: PathBuf,
    tls: TlsLibrary,
}

/// The library that speaks TLS in a release build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TlsLibrary {
    /// Linked in.
    #[default]
    Rustls,
    /// The host's, as in packages and images for CoreOS.
    Openssl,
}

impl ProjectTree {
    /// Find the directories from the location of this executable.
    ///
    /// # Errors
    /// This executable lies outside cargo's layout, TARGET/PROFILE/xtask.
    pub fn locate() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
        // The environment, cargo's configuration and a target triple can move the target directory; this
        // executable is in it already.
        let executable = std::env::current_exe().context("finding this executable")?;
        let target =
            executable.ancestors().nth(2).context("this executable is outside a target directory")?;
        Ok(Self { root: root.to_owned(), target: target.to_owned(), tls: TlsLibrary::default() })
    }

    /// Return the same tree with release builds that use this library.
    #[must_use]
    pub fn with_tls(self, tls: TlsLibrary) -> Self {
        Self { tls, ..self }
    }

    /// The library that speaks TLS in release builds.
    pub fn tls(&self) -> TlsLibrary {
        self.tls
    }

    /// The directory of the workspace's `Cargo.toml`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's target directory.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The path of the executable `name` in the release build.
    pub fn executable(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// The folder of the executables that stand for the next release, and that tests exchange with those of this release.
    pub fn next_release(&self) -> PathBuf {
        self.target.join("next-schema")
    }

    /// Return true if the executables of the next release are built.
    pub fn has_next_release(&self) -> bool {
        self.next_release().join("flameholder").is_file()
    }

    /// The folder of virtual machines and of the stages of their build, for the environment of a command.
    pub fn vm_variable(&self) -> (&'static str, PathBuf) {
        ("FLAMEHOLDER_VM", self.target.join("vm"))
    }

    /// Return true if the Debian tree is built whose programs tests use.
    pub fn has_debian_tools(&self) -> bool {
        self.target.join("vm/current/builder/tree").is_dir()
    }

    /// Return a cargo command with the root as its working directory.
    ///
    /// It does not inherit what `cargo run` says of this package: build scripts of dependencies that read these
    /// variables would run again, and `cargo build` outside of this program would compile them once more.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(arguments).current_dir(&self.root);
        let own = std::env::vars_os().map(|(name, _)| name);
        for name in own.filter(|name| name.to_string_lossy().starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
        command
    }

    /// Return true for a subcommand of cargo, its own or an installed one.
    pub fn has_subcommand(&self, name: &str) -> bool {
        let mut command = self.cargo(&[name, "--version"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Build the release executables and the programs that generate hosts.
    ///
    /// # Errors
    /// The build fails.
    pub fn build_release(&self) -> Result<()> {
        let packages = ["flameholder", "osimage", "rpmostreed"].map(|name| ["--package", name]).concat();
        let mut build = self.cargo(&["build", "--release", "--bins"]);
        build.args(packages);
        if self.tls == TlsLibrary::Openssl {
            build.args(["--no-default-features", "--features", "flameholder/openssl,flameholder/ostree"]);
        }
        invocation::run(&mut build)
    }
}
