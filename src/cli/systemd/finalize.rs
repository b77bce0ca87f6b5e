//! `flameholder finalize`: finalize the staged deployment together with its configuration. A drop-in makes
//! `ostree-finalize-staged.service` run it at shutdown instead of `ostree admin finalize-staged`, which it
//! calls.

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, session};
use crate::os::worker::WorkerProgram;
use crate::transaction::update::finalize;
use crate::transaction::update::finalize::FinalizeOutcome;

pub(crate) fn run() -> Result<CommandOutcome, CliError> {
    // Located first: `/proc/self/exe` may not resolve in the mount namespace.
    let worker = WorkerProgram::locate();
    let (host, namespace) = session::enter_namespace(session::running_host()?)?;
    let mut open = |access| session::open_running_with(worker.as_ref().map_err(Clone::clone)?, access);
    let text = match finalize::finalize(&namespace, &host, &mut open)? {
        FinalizeOutcome::Generation(generation) => {
            format!("generation {generation} is finalized and boots next\n")
        }
        FinalizeOutcome::PassedThrough => "no staged generation of flameholder to finalize\n".to_owned(),
    };
    print_text(&text)?;
    Ok(CommandOutcome::Success)
}
