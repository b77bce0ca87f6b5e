//! `flameholder rollback`: go back to the previous generation.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::change::apply::SwitchArgs;
use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::change::running_host;
use crate::cli::{CliError, CommandOutcome};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::change::{ChangeResult, RebootOutlook};
use crate::transaction::update::offline_sysroot;

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Work on an OSTree sysroot that is not booted, instead of the running host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    sysroot: Option<PathBuf>,
    #[command(flatten)]
    switch: SwitchArgs,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

pub(crate) fn run(args: &RollbackArgs) -> Result<CommandOutcome, CliError> {
    args.switch.ensure_consistent()?;
    let mut report = ChangeReport::begin("rollback", args.change);
    let Some(place) = &args.sysroot else {
        return running_host::roll_back(args.switch, args.change.wait, report);
    };
    let worker = WorkerProgram::locate()?;
    let mut session =
        args.change.wait.wait_for(|| WorkerSession::open(&worker, place, SysrootAccess::Write))?;
    let (from, to) = offline_sysroot::roll_back(&mut session, place)?;
    report.document.result = ChangeResult::Applied;
    report.document.deployment = Some(to.id.to_string());
    report.document.reboot = RebootOutlook::Outstanding;
    report.end(&format!("deployment {} boots next\n{} stays as the rollback deployment\n", to.id, from.id))
}
