//! Unlocking of the staged deployment: the last step before the reboot.

use std::path::Path;

use super::{is_pending, rollback_pin, staged_deployment};
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::pending::{PendingEntry, PendingGeneration};
use crate::host::{LockedHost, ServiceControl};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::history;
use crate::transaction::state::pending;
use crate::transaction::update::error::UpdateError;
use crate::transaction::update::space;

/// Unit of ostree whose `ExecStop=` finalizes the staged deployment at shutdown.
const FINALIZER: &str = "ostree-finalize-staged.service";

/// Unlock the staged deployment of `pending`: the next shutdown finalizes it. Unlocking is the last step;
/// everything that finalization reads is durable before.
pub fn unlock(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    host: &LockedHost<'_>,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    ensure_finalize_drop_in(services)?;
    let id = pending.staged.deployment.id();
    if !staged_deployment(os)?.is_some_and(|staged| is_pending(&staged, pending)) {
        return Err(UpdateError::NotStaged(pending.generation().to_owned()).into());
    }
    space::ensure_space_to_finalize(os, &id)?;
    rollback_pin::pin_base(os, host, pending)?;
    pending::append_entry(host.as_root(), &PendingEntry::Unlocked { boot_id: host.boot_id().to_owned() })?;
    os.unlock(&id)?;
    history::note(host, HistoryEvent::Unlocked, HistoryNote::of(&pending.staged.record));
    Ok(())
}

/// Fail unless the `ExecStop=` of [`FINALIZER`] is `flameholder finalize`: plain ostree would finalize the
/// generation without its configuration. If systemd does not answer, the check is skipped; the activation
/// service then writes the configuration in the next boot.
fn ensure_finalize_drop_in(services: &dyn ServiceControl) -> Result<(), TransactionError> {
    let Some(commands) = services.stop_commands(FINALIZER) else { return Ok(()) };
    let merges_etc = |command: &Vec<String>| {
        command.first().is_some_and(|program| Path::new(program).file_name() == Some("flameholder".as_ref()))
            && command.get(1).is_some_and(|verb| verb == "finalize")
    };
    if commands.iter().any(merges_etc) {
        return Ok(());
    }
    let lines: Vec<String> = commands.iter().map(|command| format!("`{}`", command.join(" "))).collect();
    let instead = if lines.is_empty() { "empty".to_owned() } else { lines.join(", ") };
    Err(UpdateError::FinalizeDropInMissing { unit: FINALIZER, instead }.into())
}
