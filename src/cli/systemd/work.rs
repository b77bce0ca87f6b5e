//! `flameholder work`: one piece of work on the host for the daemon, in a process of its own.

use clap::Args;

use crate::cli::os_backend::OsBackendArgs;
use crate::cli::{CliError, CommandOutcome};
use crate::daemon::work;

/// Name of the subcommand, as the daemon passes it.
pub(crate) const COMMAND: &str = "work";

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    os_backend: OsBackendArgs,
}

pub(crate) fn run(args: &WorkArgs) -> Result<CommandOutcome, CliError> {
    let mut open = args.os_backend.opener();
    let done = work::run(&mut open, &mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    done.map_err(CliError::Output)?;
    Ok(CommandOutcome::Success)
}
