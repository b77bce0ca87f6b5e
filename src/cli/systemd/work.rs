//! `flameholder work`: what the daemon has done to the host, in a process of its own.

use clap::Args;

use crate::cli::os_backend::OsBackend;
use crate::cli::{CliError, Verdict};
use crate::daemon::work;

/// What the daemon calls this.
pub(crate) const VERB: &str = "work";

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    os_backend: OsBackend,
}

pub(crate) fn run(args: &WorkArgs) -> Result<Verdict, CliError> {
    let mut open = args.os_backend.sessions();
    let done = work::run(&mut open, &mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    done.map_err(CliError::Output)?;
    Ok(Verdict::Fine)
}
