//! Sessions of the worker on the booted sysroot.

use std::path::Path;

use crate::cli::CliError;
use crate::host::facts::boot;
use crate::host::mount_namespace::MountNamespace;
use crate::host::{Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::os::{Sysroot, backend};
use crate::transaction::TransactionError;

/// Open the running host; `None` if it was not booted through OSTree. Fails for other users than root, who can read next to
/// nothing of it.
pub(crate) fn running_host_if_any() -> Result<Option<RunningHost>, CliError> {
    if boot::is_booted_ostree(Path::new("/")) && !rustix::process::geteuid().is_root() {
        return Err(CliError::NotRoot);
    }
    Ok(RunningHost::open()?)
}

/// Open the running host; fail with wrong usage on a host that was not booted through OSTree.
pub(crate) fn running_host() -> Result<RunningHost, CliError> {
    running_host_if_any()?.ok_or_else(|| {
        let none = "this host was not booted through OSTree; commands with the options --root DIR or --sysroot DIR \
            work on a tree or a sysroot instead";
        CliError::Usage(backend::unsupported_reason().unwrap_or_else(|| none.to_owned()))
    })
}

/// Enter a private mount namespace, and open the root directory again in it.
///
/// systemd gives a sandboxed service a namespace of its own, which ends when its only process leaves it: its
/// mounts are detached, and a directory opened there before, such as `/`, has none of them below it any more.
pub(crate) fn enter_namespace(host: RunningHost) -> Result<(RunningHost, MountNamespace), CliError> {
    let namespace = MountNamespace::enter().map_err(TransactionError::from)?;
    let root = Root::open(Path::new("/"))?;
    Ok((RunningHost { root, ..host }, namespace))
}

/// Open a session of libostree, without rpm-ostreed, on the booted sysroot.
pub(crate) fn open_running(access: SysrootAccess) -> Result<Box<dyn Sysroot>, TransactionError> {
    open_running_with(&WorkerProgram::locate()?, access)
}

/// Open such a session with a worker that is located already: after entering a mount namespace it may not be
/// found.
pub(crate) fn open_running_with(
    worker: &WorkerProgram,
    access: SysrootAccess,
) -> Result<Box<dyn Sysroot>, TransactionError> {
    Ok(Box::new(WorkerSession::open(worker, Path::new("/"), access)?))
}
