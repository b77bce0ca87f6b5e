//! `flameholder retry`: release the blocked target.

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, session};
use crate::transaction::TransactionError;
use crate::transaction::state::blocked;

pub(crate) fn run() -> Result<CommandOutcome, CliError> {
    let host = session::running_host()?;
    let root = host.lock()?;
    // One that cannot be read is set aside, with a warning, and no longer blocks.
    let text = match blocked::load_or_set_aside(&root).map_err(TransactionError::from)? {
        None => "no target is blocked\n".to_owned(),
        Some(held) => format!("{} is no longer blocked; apply it again\n", held.config),
    };
    blocked::release(&root)?;
    print_text(&text)?;
    Ok(CommandOutcome::Success)
}
