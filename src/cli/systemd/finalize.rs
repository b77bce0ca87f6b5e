//! `flameholder finalize`: what `ostree-finalize-staged.service` runs at shutdown in place of libostree's own
//! command, which it runs itself.

use crate::cli::output::terminal::print_text;
use crate::cli::session;
use crate::cli::{CliError, Verdict};
use crate::host::mount_namespace::MountNamespace;
use crate::os::worker::WorkerProgram;
use crate::transaction::TransactionError;
use crate::transaction::update::finalize;
use crate::transaction::update::finalize::Bound;

pub(crate) fn run() -> Result<Verdict, CliError> {
    let booted = session::booted()?;
    // Found first: in another namespace the kernel may not know the way to this executable.
    let worker = WorkerProgram::locate();
    let namespace = MountNamespace::enter().map_err(TransactionError::from)?;
    let mut open = |access| session::session_of(worker.as_ref().map_err(Clone::clone)?, access);
    let text = match finalize::bind(&namespace, &booted, &mut open)? {
        Bound::Generation(generation) => format!("generation {generation} is bound, and boots next\n"),
        Bound::Passed => "nothing of flameholder's is to be bound\n".to_owned(),
    };
    print_text(&text)?;
    Ok(Verdict::Fine)
}
