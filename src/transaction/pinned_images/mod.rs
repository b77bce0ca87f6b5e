//! Pins of images on the running host: CRI-O's drop-in, written in a live transaction of its own together with CRI-O's
//! reload.

mod error;

use std::collections::BTreeSet;

pub use error::PinError;

use crate::core::config::managed_files;
use crate::core::config::policy::CONTAINER_RUNTIME;
use crate::core::enablement::UnitName;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::pinned_images::drop_in;
use crate::core::pinned_images::drop_in::{DROP_IN, FoundDropIn};
use crate::core::state::service_action::ServiceAction;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileKind;
use crate::host::{HostDisk, HostError, LockedRoot, ServiceControl};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::interrupted::recover_first;
use crate::transaction::{TransactionError, history, side_change};

/// Have CRI-O keep exactly these images; returns true if that was a change. Where CRI-O does not take the new drop-in, it
/// gets the old one back.
pub fn pin(
    root: &LockedRoot<'_>,
    services: &dyn ServiceControl,
    images: &BTreeSet<String>,
) -> Result<bool, TransactionError> {
    recover_first(root)?;
    let current = CurrentState::load(root)?;
    let path = ManagedPath::constant(DROP_IN);
    let is_managed = current.host().is_some_and(|host| managed_files::written_paths(host).contains(&path));
    let steps = drop_in::plan(&found(root.as_root())?, images).map_err(PinError::Obstructed)?;
    if steps.is_empty() {
        return Ok(false);
    }
    if is_managed {
        return Err(PinError::Managed.into());
    }
    let unit = UnitName::parse(CONTAINER_RUNTIME).expect("a unit name of the program is valid");
    side_change::carry_out(root, services, &current, &steps, &[ServiceAction::Reload { unit }])?;
    history::note(root, HistoryEvent::ImagesPinned, HistoryNote::default().with_paths(&[path]));
    Ok(true)
}

/// Return true if CRI-O keeps exactly these images already.
pub fn is_pinned(disk: &dyn HostDisk, images: &BTreeSet<String>) -> Result<bool, HostError> {
    Ok(drop_in::is_right(&found(disk)?, images))
}

fn found(disk: &dyn HostDisk) -> Result<FoundDropIn, HostError> {
    let path = ManagedPath::constant(DROP_IN);
    let kind = disk.status(&path)?.map(|status| status.kind);
    let contents = match kind {
        Some(FileKind::File) => disk.read(&path, limits::DOCUMENT_BYTES)?,
        _ => None,
    };
    let mut missing_parents = Vec::new();
    for directory in path.ancestors() {
        if disk.status(&directory)?.is_none() {
            missing_parents.push(directory);
        }
    }
    Ok(FoundDropIn { kind, contents, missing_parents })
}
