//! `flameholder work`: one piece of work on the host for the daemon, in a process of its own.

use std::path::Path;

use clap::Args;

use crate::cli::os_backend::OsBackendArgs;
use crate::cli::{CliError, CommandOutcome};
use crate::daemon::jobs::work;
use crate::host::Root;
use crate::transaction::state::settings::settings_or_default;

/// Name of the subcommand, as the daemon passes it.
pub(crate) const COMMAND: &str = "work";

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    os_backend: OsBackendArgs,
}

pub(crate) fn run(args: &WorkArgs) -> Result<CommandOutcome, CliError> {
    let root = Root::open(Path::new("/"))?;
    let mut open = args.os_backend.opener(&settings_or_default(&root));
    let done = work::run(&mut open, &mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    done.map_err(CliError::Output)?;
    Ok(CommandOutcome::Success)
}
