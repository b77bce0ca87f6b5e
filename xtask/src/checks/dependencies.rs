//! The dependencies' licences, sources and duplicates, judged by cargo-deny and `deny.toml`.

use anyhow::{Context, Result};

use crate::checks::has_subcommand;
use crate::consent::Consent;
use crate::invocation;
use crate::packages::listing;
use crate::workspace::Workspace;

/// Runs cargo-deny without a network, installing it first where it is missing.
///
/// # Errors
/// A dependency breaks a rule of `deny.toml`, or cargo-deny cannot be installed.
pub fn ensure_allowed(workspace: &Workspace, consent: Consent) -> Result<()> {
    if !has_subcommand(workspace, "deny") {
        // It reads a few files, and building it with optimizations takes minutes.
        let mut install = [workspace.cargo(&["install", "--locked", "--debug", "cargo-deny"])];
        consent.ensure(&listing(&install, "")).context("cargo-deny is not installed")?;
        install.iter_mut().try_for_each(invocation::run)?;
    }
    // cargo-deny looks at every platform's dependencies, a build only at its own platform's.
    invocation::run(&mut workspace.cargo(&["fetch", "--locked", "--quiet"]))?;
    let checks = ["bans", "licenses", "sources"];
    invocation::run(workspace.cargo(&["deny", "--offline", "check"]).args(checks))
}
