//! An interrupted change on a tree: refused by commands that only read, recovered by those that write.

use crate::core::state::journal::{Journal, TransactionState};
use crate::host::facts::boot;
use crate::host::fs::lock::HostLock;
use crate::host::systemd::service_port::NoServices;
use crate::host::systemd::unit_jobs::SystemdServices;
use crate::host::{HostError, Root, ServiceControl};
use crate::transaction::TransactionError;
use crate::transaction::engine::journal;
use crate::transaction::engine::recover;
use crate::transaction::engine::recover::{RecoveryError, RecoveryOutcome};
use crate::transaction::state::current::CurrentState;

/// The change to the tree at `root` that is not settled, and whether somebody is at work on it.
pub fn open_change(root: &Root) -> Result<Option<(Journal, bool)>, TransactionError> {
    let open = journal::load(root).map_err(RecoveryError::from)?;
    open.map(|open| match HostLock::ensure_free(root) {
        Ok(()) => Ok((open, false)),
        Err(HostError::Locked { .. }) => Ok((open, true)),
        Err(error) => Err(error.into()),
    })
    .transpose()
}

/// What looks at a tree does not settle it, and must not take half a change for a whole one.
pub(crate) fn ensure_not_interrupted(root: &Root) -> Result<(), TransactionError> {
    let open = journal::load(root).map_err(RecoveryError::from)?;
    if !open.is_some_and(|open| {
        matches!(open.reached, TransactionState::Prepared | TransactionState::Acting { .. })
    }) {
        return Ok(());
    }
    // Whoever is at work on it holds the lock.
    HostLock::ensure_free(root)?;
    Err(TransactionError::Interrupted(root.path().display().to_string()))
}

/// Settles what an interrupted run left in the tree at `root`.
pub fn recover(root: &Root) -> Result<RecoveryOutcome, TransactionError> {
    let _lock = HostLock::take(root)?;
    recover_open(root, &boot::boot_id())
}

/// The same on the way to something else, which says so.
pub(crate) fn recover_first(root: &Root, boot_id: &str) -> Result<(), TransactionError> {
    if let RecoveryOutcome::Undone { target } = recover_open(root, boot_id)? {
        let target = target.unwrap_or_default();
        log::warn!("a change to generation {target} had been interrupted, and is taken back first");
    }
    Ok(())
}

pub(crate) fn recover_open(root: &Root, boot_id: &str) -> Result<RecoveryOutcome, TransactionError> {
    let found = CurrentState::load_record(root)?.map(|record| record.generation);
    let services: &dyn ServiceControl =
        if boot::is_running(root.path()) { &SystemdServices::system() } else { &NoServices };
    Ok(recover::recover(root, services, found.as_deref(), boot_id)?)
}
