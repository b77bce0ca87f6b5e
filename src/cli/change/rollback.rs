//! `flameholder rollback`

use std::path::PathBuf;

use clap::Args;

use crate::cli::change::apply::Reboot;
use crate::cli::change::running_host;
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, Verdict};
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// An OSTree sysroot that is not running; the running host where it is not given
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Whether the running host is rebooted into the result
    #[arg(long, value_enum, default_value_t, conflicts_with = "sysroot")]
    reboot: Reboot,
}

pub(crate) fn run(args: &RollbackArgs) -> Result<Verdict, CliError> {
    let Some(place) = &args.sysroot else { return running_host::roll_back(args.reboot) };
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, place, Access::Write)?;
    let (from, to) = sysroot::roll_back(&mut session, place)?;
    print_text(&format!("deployment {} boots next\n{} stays as the fallback\n", to.id, from.id))?;
    Ok(Verdict::Fine)
}
