//! The program that writes the manual pages and shell completions.

use std::process::Command;

use anyhow::Result;

use crate::invocation;
use crate::project_tree::ProjectTree;
use crate::testing::SCOPE;

/// Build the program, and return the command that runs it.
///
/// It gets the selection of dependencies that the tests have: `cargo run` would compile the agent once more for its own.
///
/// # Errors
/// The build fails.
pub fn program(tree: &ProjectTree) -> Result<Command> {
    invocation::run(tree.cargo(&["build", "--quiet", "--bin", "manual"]).args(SCOPE))?;
    Ok(Command::new(tree.target().join("debug/manual")))
}
