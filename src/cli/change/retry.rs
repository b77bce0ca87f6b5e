//! `flameholder retry`: release the blocked target.

use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::{CliError, CommandOutcome, session};
use crate::report::change::ChangeResult;
use crate::transaction::TransactionError;
use crate::transaction::state::blocked;

pub(crate) fn run(args: &ChangeArgs) -> Result<CommandOutcome, CliError> {
    let mut report = ChangeReport::begin("retry", *args);
    let host = session::running_host()?;
    let root = args.wait.wait_for(|| host.lock())?;
    // One that cannot be read is set aside, with a warning, and no longer blocks.
    let text = match blocked::load_or_set_aside(&root).map_err(TransactionError::from)? {
        None => "no target is blocked\n".to_owned(),
        Some(blocked) => {
            report.document.result = ChangeResult::Unblocked;
            report.document.generation = blocked.generation;
            let text = format!(
                "{} is no longer blocked: the daemon tries it again, or `flameholder apply`\n",
                blocked.config
            );
            report.document.config = Some(blocked.config);
            text
        }
    };
    blocked::release(&root)?;
    report.end(&text)
}
