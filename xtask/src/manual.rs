//! The program that writes the manual pages and shell completions.

use std::process::Command;

use anyhow::Result;

use crate::invocation;
use crate::project_tree::ProjectTree;
use crate::testing::SCOPE;

/// Build the program, and return the command that runs it.
///
/// It is built with the tests: without them, dependencies have other features, and cargo compiles them and the agent once more.
///
/// # Errors
/// The build fails.
pub fn program(tree: &ProjectTree) -> Result<Command> {
    invocation::run(tree.cargo(&["build", "--quiet", "--tests", "--bin", "manual"]).args(SCOPE))?;
    Ok(Command::new(tree.target().join("debug/manual")))
}
