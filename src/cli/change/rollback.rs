//! `flameholder rollback`: go back to the previous generation.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::change::apply::SwitchArgs;
use crate::cli::change::running_host;
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Work on an OSTree sysroot that is not booted, instead of the running host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    sysroot: Option<PathBuf>,
    #[command(flatten)]
    switch: SwitchArgs,
}

pub(crate) fn run(args: &RollbackArgs) -> Result<CommandOutcome, CliError> {
    args.switch.ensure_consistent()?;
    let Some(place) = &args.sysroot else { return running_host::roll_back(args.switch) };
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, place, SysrootAccess::Write)?;
    let (from, to) = sysroot::roll_back(&mut session, place)?;
    print_text(&format!("deployment {} boots next\n{} stays as the rollback deployment\n", to.id, from.id))?;
    Ok(CommandOutcome::Success)
}
