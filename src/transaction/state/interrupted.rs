//! Interrupted change of a tree: an error for commands that only read, recovered by commands that write.

use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::journal::{Journal, TransactionState};
use crate::core::values::identifiers::BootId;
use crate::host::facts::boot;
use crate::host::fs::lock::HostLock;
use crate::host::systemd::service_port::NoServices;
use crate::host::systemd::unit_jobs::SystemdServices;
use crate::host::{HostError, LockedRoot, Root, ServiceControl};
use crate::transaction::TransactionError;
use crate::transaction::engine::recover::{RecoveryError, RecoveryOutcome};
use crate::transaction::engine::{journal, recover};
use crate::transaction::history;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::error::StateError;

/// Return the open change of the tree at `root`, and true if a process is still working on it.
pub fn open_change(root: &Root) -> Result<Option<(Journal, bool)>, TransactionError> {
    let open = journal::load(root).map_err(RecoveryError::from)?;
    open.map(|open| match HostLock::ensure_free(root) {
        Ok(()) => Ok((open, false)),
        Err(HostError::Locked { .. }) => Ok((open, true)),
        Err(error) => Err(error.into()),
    })
    .transpose()
}

/// Fail if a change of the tree was interrupted: a command that only reads must not take half of it for the
/// current state.
pub(crate) fn ensure_not_interrupted(root: &Root) -> Result<(), TransactionError> {
    let open = journal::load(root).map_err(RecoveryError::from)?;
    if !open.is_some_and(|open| {
        matches!(open.state, TransactionState::Prepared | TransactionState::Acting { .. })
    }) {
        return Ok(());
    }
    // A change still in progress is reported as a held lock.
    HostLock::ensure_free(root)?;
    Err(StateError::Interrupted(root.path().display().to_string()).into())
}

/// Recover an interrupted change of the tree at `root`.
pub fn recover(root: &LockedRoot<'_>) -> Result<RecoveryOutcome, TransactionError> {
    let services: &dyn ServiceControl =
        if boot::is_running(root.path()) { &SystemdServices::system() } else { &NoServices };
    recover_open(root, root.boot_id(), services)
}

/// Recover an interrupted change before another one, with a warning.
pub(crate) fn recover_first(root: &LockedRoot<'_>) -> Result<(), TransactionError> {
    warn_of(&recover(root)?);
    Ok(())
}

/// Recover an interrupted change at shutdown, where no service is restarted any more.
pub(crate) fn recover_at_shutdown(root: &LockedRoot<'_>) -> Result<(), TransactionError> {
    warn_of(&recover_open(root, root.boot_id(), &NoServices)?);
    Ok(())
}

fn warn_of(outcome: &RecoveryOutcome) {
    if let RecoveryOutcome::Undone { target } = outcome {
        log::warn!("undid an interrupted change to generation {}", target.clone().unwrap_or_default());
    }
}

fn recover_open(
    root: &Root,
    boot_id: &BootId,
    services: &dyn ServiceControl,
) -> Result<RecoveryOutcome, TransactionError> {
    let found = match CurrentState::load_record(root) {
        // Only an open change needs the record.
        Err(_) if journal::load(root).map_err(RecoveryError::from)?.is_none() => None,
        record => record?.map(|record| record.generation),
    };
    let outcome = recover::recover(root, services, found.as_ref(), boot_id)?;
    if let RecoveryOutcome::Undone { target } = &outcome {
        let note = HistoryNote { generation: target.clone(), ..HistoryNote::default() };
        history::note(root, HistoryEvent::Undone, note.because("the change was interrupted"));
    }
    Ok(outcome)
}
