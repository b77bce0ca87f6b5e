//! The checks of the sources, the build and the dependencies.

use std::process::Command;

use anyhow::Result;

use super::{CheckOutcome, CheckRun, executable};
use crate::testing::SCOPE;
use crate::{book, demo, invocation, manual, package};

fn run_one(command: &mut Command) -> Result<CheckOutcome> {
    invocation::run(command).map(|()| CheckOutcome::PASSED)
}

/// Check the formatting.
pub fn formatting(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    run_one(&mut run.tree.cargo(&["fmt", "--all", "--check"]))
}

/// Run Clippy on all targets, the scenarios included.
pub fn lints(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let mut clippy = run.tree.cargo(&["clippy", "--all-targets"]);
    run_one(clippy.args(SCOPE).args(["--", "-D", "warnings"]))
}

/// Run Clippy on the agent with OpenSSL and without the worker.
pub fn lints_without_worker(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let scope = ["clippy", "--package", "flameholder", "--no-default-features", "--features", "openssl"];
    run_one(run.tree.cargo(&scope).args(["--lib", "--bins", "--", "-D", "warnings"]))
}

/// Build the documentation of the workspace's own crates.
pub fn documentation(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let mut doc = run.tree.cargo(&["doc", "--no-deps", "--document-private-items"]);
    run_one(doc.args(SCOPE).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Compare the manual pages and shell completions with the command line.
pub fn manual(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    run_one(manual::program(run.tree)?.arg("--check"))
}

/// Build the release executables.
pub fn release_build(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    run.tree.build_release().map(|()| CheckOutcome::PASSED)
}

/// Check size and linkage of the release executable, and the libc that it and the worker need.
pub fn release_executable(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    for name in ["flameholder", "flameholder-ostree"] {
        executable::ensure_portable(&run.tree.executable(name))?;
    }
    executable::ensure_lean(&run.tree.executable("flameholder"), run.tree.tls())
        .map(|()| CheckOutcome::PASSED)
}

/// Build the packages, and check them.
pub fn packages(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    package::check(run.tree, run.consent).map(|()| CheckOutcome::PASSED)
}

/// Make the book of the documentation.
pub fn book(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    book::check(run.tree, run.consent).map(|()| CheckOutcome::PASSED)
}

/// Run the demo, which needs root.
pub fn demo(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    demo::show(run.tree, false, None).map(|()| CheckOutcome::PASSED)
}

/// Check the rules for dependencies.
pub fn dependencies(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    run.deny.wait()?;
    super::dependencies::ensure_allowed(run.tree).map(|()| CheckOutcome::PASSED)
}
