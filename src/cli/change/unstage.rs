//! `flameholder unstage`: discard the staged deployment, so that a reboot starts the running one again.

use clap::Args;

use crate::cli::change::running_host;
use crate::cli::output::terminal::print_text;
use crate::cli::session::{self, open_running};
use crate::cli::{CliError, CommandOutcome};
use crate::os::OsError;
use crate::os::protocol::SysrootAccess;
use crate::transaction::TransactionError;
use crate::transaction::state::current::CurrentState;
use crate::transaction::update::stage::{UnstageResult, discard_staged};

#[derive(Debug, Args)]
pub(crate) struct UnstageArgs {
    /// Discard the staged deployment of another program as well
    #[arg(long)]
    force: bool,
    /// Go on although the daemon of this host follows a source that desires another config than the running one
    #[arg(long)]
    override_source: bool,
}

pub(crate) fn run(args: &UnstageArgs) -> Result<CommandOutcome, CliError> {
    let host = session::running_host()?;
    let record = CurrentState::load_record(&host.root).map_err(TransactionError::from)?;
    let current = record.map(|record| record.config).unwrap_or_default();
    running_host::ensure_source_agrees(&host, &current, args.override_source)?;
    let mut session = open_running(SysrootAccess::Stage)?;
    let text = match discard_staged(&mut *session, &host.lock()?, args.force) {
        Ok(UnstageResult::Nothing) => "no deployment is staged\n".to_owned(),
        Ok(UnstageResult::Generation(pending)) => {
            let (config, generation) = (&pending.staged.record.config, pending.generation().shown());
            format!("discarded {config}, staged as generation {generation}\n")
        }
        Ok(UnstageResult::Other(deployment)) => format!("discarded the staged deployment {deployment}\n"),
        Err(TransactionError::Os(OsError::AlreadyStaged { deployment })) => {
            return Err(CliError::ForeignStaged { deployment });
        }
        Err(error) => return Err(error.into()),
    };
    print_text(&text)?;
    Ok(CommandOutcome::Success)
}
