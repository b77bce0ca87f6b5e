//! The rules for dependencies (licences, sources, duplicates), checked by cargo-deny against `deny.toml`.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::consent::InstallConsent;
use crate::invocation;
use crate::project_tree::ProjectTree;

/// The installation of cargo-deny beside the other checks.
///
/// Building it from source takes minutes of one processor. It runs at the lowest priority, so that it uses
/// the time in which the other checks wait: for the linker, or for hosts to boot.
#[derive(Debug, Default)]
pub struct DenyInstall {
    started: Option<Result<Child>>,
}

impl DenyInstall {
    /// Start the installation if cargo-deny is missing, after consent.
    pub fn start(tree: &ProjectTree, consent: InstallConsent) -> Self {
        let started = (!tree.has_subcommand("deny")).then(|| start(tree, consent));
        Self { started }
    }

    /// Wait for the end of the installation.
    ///
    /// # Errors
    /// cargo-deny cannot be installed, or the consent is missing.
    pub fn wait(&mut self) -> Result<()> {
        let Some(started) = self.started.take() else {
            return Ok(());
        };
        let status = started?.wait().context("waiting for the installation of cargo-deny")?;
        if !status.success() {
            bail!(
                "the installation of cargo-deny ended with {status}; see cargo-deny.log in the target directory"
            );
        }
        Ok(())
    }
}

fn start(tree: &ProjectTree, consent: InstallConsent) -> Result<Child> {
    let install = consent.to_subcommand(tree, "deny")?;
    let log = tree.target().join("cargo-deny.log");
    let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let mut idle = Command::new("nice");
    idle.args(["-n", "19"]).arg(install.get_program()).args(install.get_args()).current_dir(tree.root());
    idle.env("CARGO_PROFILE_DEV_DEBUG", "none").stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    idle.spawn().context("starting the installation of cargo-deny")
}

/// Run cargo-deny without a network.
///
/// # Errors
/// A dependency breaks a rule of `deny.toml`.
pub fn ensure_allowed(tree: &ProjectTree) -> Result<()> {
    // cargo-deny reads the dependencies of every platform, a build only those of its own.
    invocation::run(&mut tree.cargo(&["fetch", "--locked", "--quiet"]))?;
    let checks = ["bans", "licenses", "sources"];
    invocation::run(tree.cargo(&["deny", "--offline", "check"]).args(checks))
}
