//! Mark of an unconfirmed generation on disk: written by finalization, removed by the confirmation.

pub(crate) mod workload_gate;

use super::agent_files::AgentFiles;
use crate::core::state::pending::PendingGeneration;
use crate::core::state::pending::unconfirmed_mark::{
    ACTIVATED, AWAITS_MOUNTS, SCHEMA, UNCONFIRMED, UnconfirmedMark,
};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError, LockedRoot, Root};
use crate::transaction::engine::atomic_file::remove_if_present;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::{apply, atomic_file};
use crate::transaction::state::status_files;

/// Mode of the mark, which holds no secret.
const MODE: u32 = 0o644;

/// State of the mark in the `/etc` of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkState {
    /// There is no mark: the generation is confirmed, or none was staged.
    Absent,
    /// The mark is that of another deployment, copied by libostree's merge.
    Foreign,
    /// The deployment is unconfirmed. Also where the mark cannot be read: it must not fail open.
    Unconfirmed,
}

/// Return the state of the mark in `root`, which is the deployment `booted`.
#[must_use]
pub fn mark_state(root: &Root, booted: &DeploymentId) -> MarkState {
    match root.read(&ManagedPath::constant(UNCONFIRMED), limits::DOCUMENT_BYTES) {
        Ok(None) => MarkState::Absent,
        Ok(Some(bytes)) => match UnconfirmedMark::parse(&bytes) {
            Some(mark) if mark.deployment != *booted => MarkState::Foreign,
            _ => MarkState::Unconfirmed,
        },
        Err(_) => MarkState::Unconfirmed,
    }
}

/// Load the mark in `root` if it is one of the deployment `booted`, and can be read.
pub(crate) fn load_mark(root: &Root, booted: &DeploymentId) -> Option<UnconfirmedMark> {
    let bytes = root.read(&ManagedPath::constant(UNCONFIRMED), limits::DOCUMENT_BYTES).ok()??;
    UnconfirmedMark::parse(&bytes).filter(|mark| mark.deployment == *booted)
}

/// Add the step that writes the mark of `pending`.
pub(crate) fn add_mark(files: &mut AgentFiles<'_>, pending: &PendingGeneration) -> Result<(), HostError> {
    let mark = UnconfirmedMark {
        schema: SCHEMA,
        generation: pending.generation().to_owned(),
        deployment: pending.staged.deployment.id(),
        base: pending.staged.base.clone(),
        completes_first_boot: pending.staged.completes_first_boot,
    };
    files.write(ManagedPath::constant(UNCONFIRMED), mark.render(), MODE)
}

/// Write the mark of `pending`, durably and at once.
pub(crate) fn write_mark(root: &Root, pending: &PendingGeneration) -> Result<(), HostError> {
    let mut files = AgentFiles::after(root, Vec::new());
    add_mark(&mut files, pending)?;
    apply::write_to_unused(root, &files.steps, &SelinuxLabels::new())
}

/// Remove the mark, durably.
pub(crate) fn remove_mark(disk: &dyn HostDisk) -> Result<(), HostError> {
    let path = ManagedPath::constant(UNCONFIRMED);
    if disk.status(&path)?.is_none() {
        return Ok(());
    }
    remove_if_present(disk, &path)?;
    disk.sync(&[path.parent()])
}

/// Have the activation completed once all mounts are made.
pub(crate) fn await_mounts(root: &LockedRoot<'_>) -> Result<(), HostError> {
    note_boot(root, AWAITS_MOUNTS)
}

/// Let the workload start in this boot in spite of the mark.
pub fn permit_workload(root: &LockedRoot<'_>) -> Result<(), HostError> {
    note_boot(root, ACTIVATED)
}

/// Write a file in `/run` that holds for this boot.
fn note_boot(root: &LockedRoot<'_>, path: &str) -> Result<(), HostError> {
    let new = ManagedPath::constant(&format!("{path}.new"));
    atomic_file::write_to_run(
        root.as_root(),
        &ManagedPath::constant(path),
        &new,
        root.boot_id().as_str().as_bytes(),
        atomic_file::ATTRIBUTES,
    )
}

/// Remove the notes and reports that an earlier boot left in `/run`, which a soft reboot keeps: the workload waits for the
/// activation in this boot, and the boot check of this boot has no report yet.
pub(crate) fn forget_earlier_boot(root: &LockedRoot<'_>) -> Result<(), HostError> {
    let this_boot = root.boot_id().as_str().as_bytes();
    let is_earlier = |path: &ManagedPath| match root.read(path, limits::DOCUMENT_BYTES) {
        Ok(noted) => noted.is_some_and(|noted| noted != this_boot),
        Err(_) => true,
    };
    let notes = [ACTIVATED, AWAITS_MOUNTS].map(ManagedPath::constant);
    if !notes.iter().any(is_earlier) {
        return Ok(());
    }
    let reports = [status_files::BOOT_CHECK.path, status_files::STATUS.path].map(ManagedPath::constant);
    notes.iter().chain(&reports).try_for_each(|path| remove_if_present(root.as_root(), path))
}
