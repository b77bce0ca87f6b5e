//! Settles an interrupted transaction. Each way may itself be interrupted anywhere and begun again.

use std::collections::BTreeSet;

use crate::core::state::journal::{JOURNAL, JournalIntent, JournalMove};
use crate::core::state::recovery;
use crate::core::state::recovery::RecoveryAction;
use crate::core::values::names::ManagedPath;
use crate::host::fs::staging;
use crate::host::systemd::service_port::{ServiceControl, ServiceError};
use crate::host::{HostDisk, HostError};

use super::journal;
use super::journal::JournalLoadError;
use super::moves;

/// What became of an interrupted transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// There was none.
    Nothing,
    /// It was taken back; `target` is the generation that did not come about.
    Undone {
        /// Its name.
        target: Option<String>,
    },
    /// It had been carried out, and what was left of it is cleared away.
    CleanedUp,
}

/// Why an interrupted transaction is not settled. The journal stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The journal cannot be used.
    #[error("an interrupted change is not settled")]
    Journal(#[from] JournalLoadError),
    /// A step of settling failed.
    #[error("settling an interrupted change; run `flameholder recover` once the cause is gone")]
    Host(#[from] HostError),
    /// What was staged, pre-images included, is gone.
    #[error(
        "an interrupted change cannot be taken back, because {0} is gone, which held what was there before; compare the tree with `flameholder verify`, and remove {JOURNAL} to keep it as it is"
    )]
    StagingMissing(ManagedPath),
    /// The files are as they were; a service could not take them up again.
    #[error("an interrupted change is taken back, but a service could not be brought back to it")]
    Services(#[source] Box<ServiceError>),
    /// The journal speaks of another `/etc`.
    #[error(
        "an interrupted change from generation {} to {} belongs to another deployment than this one; boot that one and run `flameholder recover` there",
        named(current.as_deref()),
        named(target.as_deref())
    )]
    OtherDeployment {
        /// The generation before it.
        current: Option<String>,
        /// The generation that it would have made.
        target: Option<String>,
    },
}

fn named(generation: Option<&str>) -> &str {
    generation.unwrap_or("(none)")
}

/// Whether an interrupted run left anything at all.
pub(crate) fn is_needed(disk: &dyn HostDisk) -> Result<bool, RecoveryError> {
    Ok(journal::load(disk)?.is_some() || !staging::leftovers(disk)?.is_empty())
}

/// Settles what an interrupted run left. The caller holds the lock of the tree.
pub fn recover(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    found: Option<&str>,
    boot_id: &str,
) -> Result<RecoveryOutcome, RecoveryError> {
    let open = journal::load(disk)?;
    let settlement = recovery::recovery_action(open.as_ref(), found, boot_id);
    let Some(open) = open else {
        // Killed while it staged: nothing of that was ever visible.
        clean_up(disk, &staging::leftovers(disk)?, &[])?;
        return Ok(RecoveryOutcome::Nothing);
    };
    let intent = &open.intent;
    match settlement {
        RecoveryAction::OtherDeployment => Err(RecoveryError::OtherDeployment {
            current: intent.current.clone(),
            target: intent.target.clone(),
        }),
        RecoveryAction::Undo { actions } => {
            undo(disk, services, intent, actions)?;
            Ok(RecoveryOutcome::Undone { target: intent.target.clone() })
        }
        RecoveryAction::CleanUp => {
            clean_up(disk, &intent.staging, &intent.discards)?;
            Ok(RecoveryOutcome::CleanedUp)
        }
        RecoveryAction::Nothing => Ok(RecoveryOutcome::Nothing),
    }
}

/// Takes all acts back, newest first, and has services take up again what was there before.
pub(crate) fn undo(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    intent: &JournalIntent,
    actions: usize,
) -> Result<(), RecoveryError> {
    for directory in &intent.staging {
        // Whether an act was carried out is told by what is staged.
        if disk.status(directory)?.is_none() {
            return Err(RecoveryError::StagingMissing(directory.clone()));
        }
    }
    for act in intent.moves.iter().rev() {
        moves::undo(disk, act)?;
    }
    disk.sync(&changed_directories(&intent.moves))?;
    // The files come first: a service that fails with them would fail at every further attempt.
    let failed = intent.actions.iter().take(actions).find_map(|action| services.perform(action).err());
    // The journal goes first: it is nothing without what is staged. Neither needs space.
    journal::close_durably(disk)?;
    remove_staging(disk, &intent.staging, &[])?;
    failed.map_or(Ok(()), |error| Err(RecoveryError::Services(Box::new(error))))
}

/// Removes what a settled transaction leaves, its journal last: durably, so that nothing is left
/// that no journal names.
pub(crate) fn clean_up(
    disk: &dyn HostDisk,
    staging: &[ManagedPath],
    discards: &[ManagedPath],
) -> Result<(), HostError> {
    remove_staging(disk, staging, discards)?;
    journal::close(disk)
}

/// The same without a journal.
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

/// The directories whose names, and those whose attributes the acts change.
pub(crate) fn changed_directories(moves: &[JournalMove]) -> Vec<Option<ManagedPath>> {
    let mut directories = BTreeSet::new();
    for act in moves {
        directories.insert(act.changed_directory());
    }
    directories.into_iter().collect()
}
