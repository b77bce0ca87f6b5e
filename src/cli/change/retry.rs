//! `flameholder retry`: release the blocked target.

use std::path::Path;

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome};
use crate::host::{LockedRoot, Root};
use crate::transaction::state::blocked;

pub(crate) fn run() -> Result<CommandOutcome, CliError> {
    let root = Root::open(Path::new("/"))?;
    let root = LockedRoot::lock(&root)?;
    // A blocked target that cannot be read is released as well.
    let text = match blocked::load(root.as_root()) {
        Ok(None) => "no target is blocked\n".to_owned(),
        Ok(Some(held)) => format!("{} is no longer blocked; apply it again\n", held.config),
        Err(error) => format!("the blocked target cannot be read, and is released: {error}\n"),
    };
    blocked::release(&root)?;
    print_text(&text)?;
    Ok(CommandOutcome::Success)
}
