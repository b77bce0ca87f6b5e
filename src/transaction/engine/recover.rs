//! Recovery of an interrupted change. Can itself be interrupted at any point and repeated.

use std::collections::BTreeSet;

use super::journal::JournalLoadError;
use super::{journal, moves};
use crate::core::state::journal::{JOURNAL, JournalError, JournalIntent, JournalMove, TransactionState};
use crate::core::state::recovery;
use crate::core::state::recovery::RecoveryAction;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::host::fs::account_lock::{AccountLock, is_account_file};
use crate::host::fs::staging;
use crate::host::systemd::service_port::{ServiceControl, ServiceError};
use crate::host::{HostDisk, HostError};

/// Result of recovering an interrupted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// No change was interrupted.
    Nothing,
    /// The change was undone.
    Undone {
        /// Generation that was not reached.
        target: Option<GenerationId>,
    },
    /// The change was already committed; its leftovers are removed.
    CleanedUp,
}

/// Error of a recovery. The journal remains.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error("an interrupted change cannot be recovered")]
    Journal(#[source] JournalError),
    /// The journal cannot be read: there may be none.
    #[error("cannot tell whether a change was interrupted")]
    Unreadable(#[source] HostError),
    #[error("recovering an interrupted change; remove the cause and run `flameholder recover`")]
    Host(#[from] HostError),
    /// A staging directory, which holds pre-images, is missing.
    #[error(
        "an interrupted change cannot be undone: {0}, which held the previous files, is missing; compare the tree with `flameholder verify`, and remove {JOURNAL} to keep it as it is"
    )]
    StagingMissing(ManagedPath),
    /// The previous files are back; a service action failed.
    #[error(
        "an interrupted change is undone, but a service could not be reloaded or restarted with the previous files"
    )]
    Services(#[source] Box<ServiceError>),
    /// The journal belongs to the `/etc` of another deployment.
    #[error(
        "an interrupted change from generation {} to {} belongs to another deployment; boot that deployment and run `flameholder recover` there",
        named(current.as_ref()),
        named(target.as_ref())
    )]
    OtherDeployment {
        /// Generation before the change.
        current: Option<GenerationId>,
        /// Generation after the change.
        target: Option<GenerationId>,
    },
}

impl From<JournalLoadError> for RecoveryError {
    fn from(error: JournalLoadError) -> Self {
        match error {
            JournalLoadError::Host(error) => Self::Unreadable(error),
            JournalLoadError::Journal(error) => Self::Journal(error),
        }
    }
}

fn named(generation: Option<&GenerationId>) -> &str {
    generation.map_or("(none)", GenerationId::as_str)
}

/// Return true if a journal or staging directories exist.
pub(crate) fn is_needed(disk: &dyn HostDisk) -> Result<bool, RecoveryError> {
    Ok(journal::load(disk)?.is_some() || !staging::leftovers(disk)?.is_empty())
}

/// Recover an interrupted change: undo it, or complete a committed one. `found` is the generation in the
/// tree's record. The caller holds the host lock.
pub fn recover(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    found: Option<&GenerationId>,
    boot_id: &BootId,
) -> Result<RecoveryOutcome, RecoveryError> {
    let open = journal::load(disk)?;
    let action = recovery::recovery_action(open.as_ref(), found, boot_id);
    let Some(open) = open else {
        // A process was killed while it staged: nothing was visible.
        clean_up(disk, &staging::leftovers(disk)?, &[])?;
        return Ok(RecoveryOutcome::Nothing);
    };
    let intent = &open.intent;
    match action {
        RecoveryAction::OtherDeployment => Err(RecoveryError::OtherDeployment {
            current: intent.current.clone(),
            target: intent.target.clone(),
        }),
        RecoveryAction::Undo { actions } => {
            undo(disk, services, &surviving(disk, intent, boot_id)?, actions)?;
            Ok(RecoveryOutcome::Undone { target: intent.target.clone() })
        }
        RecoveryAction::CleanUp => {
            clean_up(disk, &intent.staging, &intent.discards)?;
            Ok(RecoveryOutcome::CleanedUp)
        }
        RecoveryAction::Nothing => Ok(RecoveryOutcome::Nothing),
    }
}

/// Undo all moves, newest first, and repeat the first `actions` service actions, so that services read the
/// previous files.
pub(crate) fn undo(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    intent: &JournalIntent,
    actions: usize,
) -> Result<(), RecoveryError> {
    undo_moves(disk, intent)?;
    // Service actions do not stop the recovery: a service that fails with the previous files would fail in
    // each retry. A unit that does not exist has nothing to undo.
    let failed = intent.actions.iter().take(actions).find_map(|action| {
        services.perform(action).err().filter(|error| !matches!(error, ServiceError::NotFound { .. }))
    });
    // The journal refers to the staged content, so it is removed first. Neither removal needs free space.
    journal::close_durably(disk)?;
    remove_staging(disk, &intent.staging, &[])?;
    failed.map_or(Ok(()), |error| Err(RecoveryError::Services(Box::new(error))))
}

fn undo_moves(disk: &dyn HostDisk, intent: &JournalIntent) -> Result<(), RecoveryError> {
    let is_copy = is_copy(disk, intent)?;
    let _accounts = lock_accounts(disk, intent.moves.iter().map(JournalMove::path))?;
    for act in intent.moves.iter().rev() {
        moves::undo(disk, act, is_copy)?;
    }
    Ok(disk.sync(&changed_directories(&intent.moves))?)
}

/// Return the rest of `intent` after a reboot: file systems in memory were emptied, with the staged files and with the paths that
/// the change had made there.
fn surviving(
    disk: &dyn HostDisk,
    intent: &JournalIntent,
    boot_id: &BootId,
) -> Result<JournalIntent, HostError> {
    // A soft reboot keeps `/run`.
    let emptied = if intent.boot_id == *boot_id { &[][..] } else { &intent.volatile_staging[..] };
    without_missing(disk, intent, emptied)
}

/// Return `intent` without those of these staging directories that are missing.
fn without_missing(
    disk: &dyn HostDisk,
    intent: &JournalIntent,
    directories: &[ManagedPath],
) -> Result<JournalIntent, HostError> {
    let mut left = intent.clone();
    for directory in directories {
        if staging::inode(disk, directory)?.is_none() {
            left.leave_out(directory);
        }
    }
    Ok(left)
}

/// Undo the moves whose staging directories are there, and keep the journal: the others are undone once their file systems
/// are mounted.
pub(crate) fn undo_reachable(disk: &dyn HostDisk) -> Result<(), RecoveryError> {
    let Some(open) = journal::load(disk)? else { return Ok(()) };
    if open.state == TransactionState::Committed {
        return Ok(());
    }
    undo_moves(disk, &without_missing(disk, &open.intent, &open.intent.staging)?)
}

/// Return true if the tree was copied since the change was staged. Fails without a staging directory: its slots tell
/// which moves were performed.
fn is_copy(disk: &dyn HostDisk, intent: &JournalIntent) -> Result<bool, RecoveryError> {
    let mut found = Vec::new();
    for directory in &intent.staging {
        let inode = staging::inode(disk, directory)?;
        found.push(inode.ok_or_else(|| RecoveryError::StagingMissing(directory.clone()))?);
    }
    // Older releases note no inodes.
    Ok(!intent.staging_inodes.is_empty() && found != intent.staging_inodes)
}

/// Take the lock of the account files if the paths include one.
pub(crate) fn lock_accounts<'a>(
    disk: &dyn HostDisk,
    mut paths: impl Iterator<Item = &'a ManagedPath>,
) -> Result<Option<AccountLock>, HostError> {
    paths.any(is_account_file).then(|| disk.lock_accounts()).transpose()
}

/// Remove the leftovers of a committed or undone change, durably, before the journal that names them.
pub(crate) fn clean_up(
    disk: &dyn HostDisk,
    staging: &[ManagedPath],
    discards: &[ManagedPath],
) -> Result<(), HostError> {
    remove_staging(disk, staging, discards)?;
    journal::close(disk)
}

/// Remove restored pre-images and staging directories, and sync their parents.
pub(crate) fn remove_staging(
    disk: &dyn HostDisk,
    staging: &[ManagedPath],
    discards: &[ManagedPath],
) -> Result<(), HostError> {
    let mut changed = BTreeSet::new();
    for original in discards {
        if disk.status(original)?.is_some() {
            disk.remove_file(original)?;
            changed.insert(original.parent());
        }
    }
    for directory in staging {
        staging::clear(disk, directory)?;
        changed.insert(directory.parent());
    }
    disk.sync(&changed.into_iter().collect::<Vec<_>>())
}

/// List the directories in which moves change names or attributes, for syncing.
pub(crate) fn changed_directories(moves: &[JournalMove]) -> Vec<Option<ManagedPath>> {
    let mut directories = BTreeSet::new();
    for act in moves {
        directories.insert(act.changed_directory());
    }
    directories.into_iter().collect()
}
