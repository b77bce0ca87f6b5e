//! `flameholder unstage`: discard the staged deployment, so that a reboot starts the running one again.

use clap::Args;

use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::change::running_host;
use crate::cli::session::{self, open_running};
use crate::cli::{CliError, CommandOutcome};
use crate::os::OsError;
use crate::report::change::ChangeResult;
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
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

pub(crate) fn run(args: &UnstageArgs) -> Result<CommandOutcome, CliError> {
    let mut report = ChangeReport::begin("unstage", args.change);
    let host = session::running_host()?;
    let (mut session, locked) = args.change.wait.stage_on(&host, &mut open_running)?;
    let record = CurrentState::load_record(&locked).map_err(TransactionError::from)?;
    let current = record.map(|record| record.config).unwrap_or_default();
    running_host::ensure_source_agrees(&host, &current, args.override_source)?;
    let text = match discard_staged(&mut *session, &locked, args.force) {
        Ok(UnstageResult::Nothing) => "no deployment is staged\n".to_owned(),
        Ok(UnstageResult::Generation(pending)) => {
            let (config, generation) = (&pending.staged.record.config, pending.generation());
            report.resulted(ChangeResult::Discarded, config, generation);
            format!("discarded {config}, staged as generation {}\n", generation.shown())
        }
        Ok(UnstageResult::Other(deployment)) => {
            report.document.result = ChangeResult::Discarded;
            report.document.deployment = Some(deployment.to_string());
            format!("discarded the staged deployment {deployment}\n")
        }
        Err(TransactionError::Os(OsError::AlreadyStaged { deployment })) => {
            return Err(CliError::ForeignStaged { deployment });
        }
        Err(error) => return Err(error.into()),
    };
    report.end(&text)
}
