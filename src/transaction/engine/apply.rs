//! Journaled change of a tree that is in use. New content is staged and made durable first, then a journal
//! that describes the undoing, and only then do renames make the change visible. The change is committed
//! once the journal says so; an interruption before that, a power cut included, leads to its undoing.

use super::labels::SelinuxLabels;
use super::prepare::{FailedPathStep, prepare};
use super::recover::{RecoveryError, changed_directories, lock_accounts};
use super::{journal, moves, recover};
use crate::core::config::policy;
use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::{
    Journal, JournalIntent, JournalMove, JournalScope, TransactionState, VERSION,
};
use crate::core::state::service_action::ServiceAction;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::host::fs::staging;
use crate::host::fs::staging::StagingArea;
use crate::host::systemd::service_port::{ServiceControl, ServiceError};
use crate::host::{HostDisk, HostError, SyncQueue};

/// Steps of a change, with everything that the journal has to know.
#[derive(Debug, Clone, Copy)]
pub struct JournaledChange<'a> {
    /// Generation before the change.
    pub current: Option<&'a GenerationId>,
    /// Generation after the change.
    pub target: Option<&'a GenerationId>,
    pub boot_id: &'a BootId,
    /// Scope of the change: the tree of one deployment, or the shared `/var`.
    pub scope: JournalScope,
    /// Changes to paths, in the order in which they are made.
    pub steps: &'a [PlanStep],
    /// SELinux labels of the paths that the steps create.
    pub labels: &'a SelinuxLabels,
    /// Service actions after the renames, in order.
    pub actions: &'a [ServiceAction],
}

/// First error of a change, which leads to its undoing.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// Error at one path.
    #[error(transparent)]
    Path(#[from] Box<FailedPathStep>),
    #[error(transparent)]
    Service(#[from] Box<ServiceError>),
}

/// Error of a change.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The change failed before its first rename, or was undone.
    #[error("the change was not applied, everything is as it was before")]
    Undone(#[source] StepError),
    /// The change is committed; only its leftovers remain.
    #[error(
        "the change is applied, but its journal and staging directories cannot be removed; `flameholder recover` tries again"
    )]
    NotCleanedUp(#[source] HostError),
    /// Undoing failed as well. The journal remains for `flameholder recover`.
    #[error(
        "the change failed ({failed}) and is not completely undone; remove the cause and run `flameholder recover`"
    )]
    NotUndone {
        failed: StepError,
        #[source]
        undo: RecoveryError,
    },
}

impl ApplyError {
    /// Return true if nothing was changed because another program holds a lock, so that a later retry may
    /// succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Undone(StepError::Host(error)) if error.is_busy())
    }
}

/// Apply a change. The caller holds the host lock, and has recovered any interrupted change.
pub fn apply(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    change: JournaledChange<'_>,
) -> Result<(), ApplyError> {
    if change.steps.is_empty() {
        return Ok(());
    }
    let staging = StagingArea::new(disk);
    let accounts = lock_accounts(disk, change.steps.iter().map(PlanStep::path))
        .map_err(|failed| ApplyError::Undone(failed.into()))?;
    let intent = begin(disk, &staging, change).map_err(|failed| {
        // The next command removes leftovers; nothing of them is visible.
        if let Err(error) = abandon(disk, &staging) {
            log::warn!(
                "cannot remove staged files: {error}; the next command tries again",
                error = chain(&error)
            );
        }
        ApplyError::Undone(failed)
    })?;
    let mut begun = 0;
    let moved = perform_moves(disk, &intent.moves);
    // Undoing takes it again, and services may change users when they are started.
    drop(accounts);
    match moved.and_then(|()| perform_actions(disk, services, &intent, &mut begun)) {
        Ok(()) => {
            recover::clean_up(disk, &intent.staging, &intent.discards).map_err(ApplyError::NotCleanedUp)
        }
        Err(failed) => match undo(disk, services, &intent, begun) {
            Ok(()) => Err(ApplyError::Undone(failed)),
            Err(undo) => Err(ApplyError::NotUndone { failed, undo }),
        },
    }
}

/// Stage the new content and open the journal. Nothing is visible yet.
fn begin(
    disk: &dyn HostDisk,
    staging: &StagingArea<'_>,
    change: JournaledChange<'_>,
) -> Result<JournalIntent, StepError> {
    // One round of flushes, which begins with the first staged file: nothing depends on their order before the journal is
    // opened.
    let intent = staged_durably(disk, |sync| stage(disk, staging, change, sync))?;
    journal::open(disk)?;
    Ok(intent)
}

fn stage(
    disk: &dyn HostDisk,
    staging: &StagingArea<'_>,
    change: JournaledChange<'_>,
    sync: &mut SyncQueue<'_>,
) -> Result<JournalIntent, StepError> {
    let prepared = prepare(disk, staging, change.steps, change.labels, sync).map_err(Box::new)?;
    let directories = staging.directories();
    let staging_inodes =
        directories.iter().filter_map(|directory| staging::inode(disk, directory).transpose());
    let mut volatile_staging = Vec::new();
    for directory in &directories {
        if disk.is_volatile(directory)? {
            volatile_staging.push(directory.clone());
        }
    }
    let intent = JournalIntent {
        version: VERSION,
        boot_id: change.boot_id.to_owned(),
        scope: change.scope,
        current: change.current.cloned(),
        target: change.target.cloned(),
        staging_inodes: staging_inodes.collect::<Result<_, _>>()?,
        staging: directories,
        volatile_staging,
        moves: prepared.moves,
        discards: prepared.discards,
        actions: change.actions.to_vec(),
    };
    journal::write_new(disk, &intent, sync)?;
    Ok(intent)
}

/// Return the result of `stage` when all that it passed on is durable. An error of its own comes first.
fn staged_durably<T, E: From<HostError>>(
    disk: &dyn HostDisk,
    mut stage: impl FnMut(&mut SyncQueue<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let mut staged = None;
    let synced = disk.sync_alongside(&mut |sync| staged = Some(stage(sync)));
    let staged = staged.expect("a disk runs it once")?;
    synced?;
    Ok(staged)
}

/// Remove staged content. The journal goes first, because it refers to that content.
fn abandon(disk: &dyn HostDisk, staging: &StagingArea<'_>) -> Result<(), HostError> {
    journal::close_durably(disk)?;
    recover::remove_staging(disk, &staging.directories(), &[])
}

/// Make the change visible.
fn perform_moves(disk: &dyn HostDisk, moves: &[JournalMove]) -> Result<(), StepError> {
    for act in moves {
        moves::perform(disk, act)
            .map_err(|error| Box::new(FailedPathStep { path: act.path().clone(), error }))?;
    }
    Ok(disk.sync(&changed_directories(moves))?)
}

/// Run the service actions and commit the change. `begun` counts the actions that were started.
fn perform_actions(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    intent: &JournalIntent,
    begun: &mut usize,
) -> Result<(), StepError> {
    for action in &intent.actions {
        journal::append_state(disk, TransactionState::Acting { begun: *begun + 1 })?;
        *begun += 1;
        perform_action(services, action)?;
    }
    Ok(journal::append_state(disk, TransactionState::Committed)?)
}

/// Run a service action. A unit of the default policy that the host does not have runs with nothing of the former files.
fn perform_action(services: &dyn ServiceControl, action: &ServiceAction) -> Result<(), Box<ServiceError>> {
    match services.perform(action) {
        Err(ServiceError::NotFound { .. })
            if action.unit().is_some_and(|unit| policy::is_unit_of_defaults(unit.as_str())) =>
        {
            log::info!("{action}: this host has no such unit");
            Ok(())
        }
        result => result.map_err(Box::new),
    }
}

/// Undo a failed change. The caller has not reported success yet, so even a journal whose last line says
/// "committed" is undone.
fn undo(
    disk: &dyn HostDisk,
    services: &dyn ServiceControl,
    intent: &JournalIntent,
    begun: usize,
) -> Result<(), RecoveryError> {
    // A commit line that could not be synced may nevertheless be on disk, and recovery after a crash would
    // complete the change: replace it.
    let is_committed = |open: &Journal| open.state == TransactionState::Committed;
    if !matches!(journal::load(disk), Ok(Some(open)) if !is_committed(&open)) {
        journal::rewrite(disk, intent, TransactionState::Acting { begun })?;
    }
    recover::undo(disk, services, intent, begun)
}

/// Write `steps` into a tree that nothing uses yet, such as a new deployment's `/etc`. Without a journal:
/// on an error, the caller discards the tree.
pub fn write_to_unused(
    disk: &dyn HostDisk,
    steps: &[PlanStep],
    labels: &SelinuxLabels,
) -> Result<(), HostError> {
    // A copied tree can contain staging directories of a killed process.
    recover::remove_staging(disk, &staging::leftovers(disk)?, &[])?;
    let staging = StagingArea::new(disk);
    let prepared = staged_durably(disk, |sync| {
        prepare(disk, &staging, steps, labels, sync).map_err(|failed| failed.error)
    })?;
    prepared.moves.iter().try_for_each(|act| moves::perform(disk, act))?;
    disk.sync(&changed_directories(&prepared.moves))?;
    recover::remove_staging(disk, &staging.directories(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::enablement::UnitName;

    /// Service manager without units.
    #[derive(Debug)]
    struct UnitlessServices;

    impl ServiceControl for UnitlessServices {
        fn perform(&self, action: &ServiceAction) -> Result<(), ServiceError> {
            Err(ServiceError::NotFound { action: action.clone() })
        }

        fn stop_commands(&self, _: &str) -> Option<Vec<Vec<String>>> {
            None
        }
    }

    #[test]
    fn unit_of_the_defaults_may_be_missing() {
        let reload = |unit: &str| ServiceAction::Reload { unit: UnitName::parse(unit).unwrap() };
        perform_action(&UnitlessServices, &reload("crio.service")).unwrap();
        let error = perform_action(&UnitlessServices, &reload("chronyd.service")).unwrap_err();
        assert!(error.to_string().contains("no such unit"), "{error}");
    }
}
