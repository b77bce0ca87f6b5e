//! Sessions on the running sysroot.

use crate::cli::CliError;
use crate::host::facts::booted::BootedDeployment;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::os::{Sysroot, backend};
use crate::transaction::TransactionError;
use std::path::Path;

/// The deployment that runs; wrong usage where none does.
pub(crate) fn booted() -> Result<BootedDeployment, CliError> {
    BootedDeployment::look()?.ok_or_else(|| {
        let none =
            "this host was not booted through OSTree; name what to work on: --root DIR or --sysroot DIR";
        CliError::Usage(backend::other_kind().unwrap_or_else(|| none.to_owned()))
    })
}

/// A session on the sysroot that runs, of libostree alone.
pub(crate) fn session(access: Access) -> Result<Box<dyn Sysroot>, TransactionError> {
    session_of(&WorkerProgram::locate()?, access)
}

/// The same with a worker that was found before.
pub(crate) fn session_of(
    worker: &WorkerProgram,
    access: Access,
) -> Result<Box<dyn Sysroot>, TransactionError> {
    Ok(Box::new(WorkerSession::open(worker, Path::new("/"), access)?))
}
