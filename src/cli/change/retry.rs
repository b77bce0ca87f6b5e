//! `flameholder retry`: release the blocked target.

use clap::Args;

use crate::cli::change::change_report::ChangeReport;
use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::{CliError, CommandOutcome, OutputArgs, session};
use crate::report::change::ChangeResult;
use crate::transaction::TransactionError;
use crate::transaction::state::blocked;

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    wait: LockWaitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &RetryArgs) -> Result<CommandOutcome, CliError> {
    let mut report = ChangeReport::begin("retry", args.output.format);
    let host = session::running_host()?;
    let root = args.wait.wait_for(|| host.lock())?;
    // One that cannot be read is set aside, with a warning, and no longer blocks.
    let text = match blocked::load_or_set_aside(&root).map_err(TransactionError::from)? {
        None => "no target is blocked\n".to_owned(),
        Some(held) => {
            report.document.result = ChangeResult::Unblocked;
            report.document.generation = held.generation;
            let text = format!("{} is no longer blocked; apply it again\n", held.config);
            report.document.config = Some(held.config);
            text
        }
    };
    blocked::release(&root)?;
    report.end(&text)
}
