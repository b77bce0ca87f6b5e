//! A change to a tree that is in use: everything is staged and durable first, a durable journal
//! says how each act is undone, and then acts make it visible one by one. It holds from the moment
//! at which the journal says so; until then any end, a power cut included, leads back.

use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::{Journal, JournalIntent, JournalScope, TransactionState, VERSION};
use crate::core::state::service_action::ServiceAction;
use crate::host::fs::staging;
use crate::host::fs::staging::StagingArea;
use crate::host::systemd::service_port::{ServiceControl, ServiceError};
use crate::host::{HostDisk, HostError};

use super::labels::SelinuxLabels;
use super::prepare::prepare;
use super::recover;
use super::recover::{RecoveryError, changed_directories};
use super::{journal, moves};

/// What is to change.
#[derive(Debug, Clone, Copy)]
pub struct JournaledChange<'a> {
    /// The generation that the tree is.
    pub current: Option<&'a str>,
    /// The generation that it becomes.
    pub target: Option<&'a str>,
    /// ID of the current boot.
    pub boot_id: &'a str,
    /// Which tree it is about.
    pub scope: JournalScope,
    /// The acts on paths, in order.
    pub steps: &'a [PlanStep],
    /// The labels of what they make.
    pub labels: &'a SelinuxLabels,
    /// What services do afterwards, in order.
    pub actions: &'a [ServiceAction],
}

/// What went wrong first.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// An act on a path.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An act on a service.
    #[error(transparent)]
    Service(#[from] Box<ServiceError>),
}

/// Why a change does not hold, or is not over.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Nothing was visible yet, or all of it is taken back.
    #[error("the change was not applied, everything is as it was before")]
    Undone(#[source] StepError),
    /// It holds, and clearing up after it failed.
    #[error("the change is applied, but clearing up after it failed; `flameholder recover` repeats that")]
    NotCleanedUp(#[source] HostError),
    /// Taking back failed as well; the journal tells how to go on.
    #[error(
        "the change failed ({failed}) and is not wholly taken back; run `flameholder recover` once the cause is gone"
    )]
    NotUndone {
        /// What failed first.
        failed: StepError,
        /// What failed while taking back.
        #[source]
        undo: RecoveryError,
    },
}

/// Carries a change out. The caller holds the lock of the tree and has settled what was open.
pub fn apply(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    change: JournaledChange<'_>,
) -> Result<(), ApplyError> {
    if change.steps.is_empty() {
        return Ok(());
    }
    let staging = StagingArea::new(disk);
    let intent = begin(disk, &staging, change).map_err(|failed| {
        // What cannot be removed now is removed by the next command; nothing of it is visible.
        if let Err(error) = abandon(disk, &staging) {
            log::warn!("what was staged could not be removed: {error}");
        }
        ApplyError::Undone(failed.into())
    })?;
    let mut begun = 0;
    match perform_moves(disk, services, &intent, &mut begun) {
        Ok(()) => {
            recover::clean_up(disk, &intent.staging, &intent.discards).map_err(ApplyError::NotCleanedUp)
        }
        Err(failed) => match undo(disk, services, &intent, begun) {
            Ok(()) => Err(ApplyError::Undone(failed)),
            Err(undo) => Err(ApplyError::NotUndone { failed, undo }),
        },
    }
}

/// Stages, and opens the journal. Nothing of it is visible.
fn begin(
    disk: &dyn HostDisk,
    staging: &StagingArea<'_>,
    change: JournaledChange<'_>,
) -> Result<JournalIntent, HostError> {
    let prepared = prepare(disk, staging, change.steps, change.labels)?;
    let intent = JournalIntent {
        version: VERSION,
        boot_id: change.boot_id.to_owned(),
        scope: change.scope,
        current: change.current.map(str::to_owned),
        target: change.target.map(str::to_owned),
        staging: staging.directories(),
        moves: prepared.moves,
        discards: prepared.discards,
        actions: change.actions.to_vec(),
    };
    journal::open(disk, &intent, &prepared.staged)?;
    Ok(intent)
}

/// Removes what was staged; first the journal, which needs it.
fn abandon(disk: &dyn HostDisk, staging: &StagingArea<'_>) -> Result<(), HostError> {
    journal::close_durably(disk)?;
    recover::remove_staging(disk, &staging.directories(), &[])
}

/// Makes everything visible and has services take it up. `begun` counts the actions on services.
fn perform_moves(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    intent: &JournalIntent,
    begun: &mut usize,
) -> Result<(), StepError> {
    for act in &intent.moves {
        moves::perform(disk, act)?;
    }
    disk.sync(&changed_directories(&intent.moves))?;
    for action in &intent.actions {
        journal::append_state(disk, TransactionState::Acting { begun: *begun + 1 })?;
        *begun += 1;
        services.perform(action).map_err(Box::new)?;
    }
    Ok(journal::append_state(disk, TransactionState::Committed)?)
}

/// Nobody was told yet that the change holds, whatever the journal's last line may say by now.
fn undo(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    intent: &JournalIntent,
    begun: usize,
) -> Result<(), RecoveryError> {
    // A line that is there, though it could not be made durable, would be believed after a crash.
    let is_committed = |open: &Journal| open.reached == TransactionState::Committed;
    if !matches!(journal::load(disk), Ok(Some(open)) if !is_committed(&open)) {
        journal::rewrite(disk, intent, TransactionState::Acting { begun })?;
    }
    recover::undo(disk, services, intent, begun)
}

/// Writes `steps` into a tree that nothing uses yet: there is nothing to go back to, and whoever
/// made it abandons it upon an error.
pub fn write_to_unused(
    disk: &dyn HostDisk,
    steps: &[PlanStep],
    labels: &SelinuxLabels,
) -> Result<(), HostError> {
    // It was copied from a tree, perhaps with what a killed run had staged there.
    recover::remove_staging(disk, &staging::leftovers(disk)?, &[])?;
    let staging = StagingArea::new(disk);
    let prepared = prepare(disk, &staging, steps, labels)?;
    disk.sync(&prepared.staged.into_iter().map(Some).collect::<Vec<_>>())?;
    prepared.moves.iter().try_for_each(|act| moves::perform(disk, act))?;
    disk.sync(&changed_directories(&prepared.moves))?;
    recover::remove_staging(disk, &staging.directories(), &[])
}
