//! `hostwright rollback`

use std::path::PathBuf;

use clap::Args;

use super::terminal::print_text;
use super::{CliError, Verdict};
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::sysroot;

#[derive(Debug, Args)]
pub(super) struct RollbackArgs {
    /// An OSTree sysroot that is not running
    #[arg(long, value_name = "DIR")]
    sysroot: PathBuf,
}

pub(super) fn run(args: &RollbackArgs) -> Result<Verdict, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, &args.sysroot, Access::Write)?;
    let (from, to) = sysroot::roll_back(&mut session, &args.sysroot)?;
    print_text(&format!("deployment {} boots next\n{} stays as the fallback\n", to.id, from.id))?;
    Ok(Verdict::Fine)
}
