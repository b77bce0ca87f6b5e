//! Restart of the kubelet that waits for a certificate error, or for 12 hours.
//!
//! The document lies below `/run`: a reboot restarts the kubelet, and takes the document with it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::enablement::UnitName;
use crate::core::state::service_action::ServiceAction;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::facts::boot;
use crate::host::{HostError, LockedRoot, Root, ServiceControl};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::trust::error::TrustMaterialError;

const DOCUMENT: &str = "/run/flameholder/kubelet-restart.json";
const NEW: &str = "/run/flameholder/kubelet-restart.json.new";
const KUBELET: &str = "kubelet.service";
/// Time after which the kubelet is restarted without a certificate error (MCD's value).
const PATIENCE: Duration = Duration::from_secs(12 * 3600);

/// Restart that waits.
#[derive(Debug, Serialize, Deserialize)]
struct DeferredRestart {
    /// Time of the restart, in seconds since the kernel started, suspend included.
    due: u64,
}

/// Return the action that restarts the kubelet.
pub(super) fn action() -> ServiceAction {
    ServiceAction::Restart { unit: UnitName::parse(KUBELET).expect("a unit name of the program is valid") }
}

/// Record that a restart waits. One that waits already keeps its time.
pub(super) fn defer(root: &Root) -> Result<(), HostError> {
    if time_left(root).is_some() {
        return Ok(());
    }
    let due = boot::uptime().saturating_add(PATIENCE).as_secs();
    let document = serde_json::to_vec(&DeferredRestart { due }).expect("a number has a JSON form");
    let new = ManagedPath::constant(NEW);
    atomic_file::write_to_run(root, &path(), &new, &document, atomic_file::ATTRIBUTES)
}

/// Return the time until the restart that waits; `None` if none does. One whose document cannot be read is due now.
#[must_use]
pub fn time_left(root: &Root) -> Option<Duration> {
    let read = root.read(&path(), limits::FRAGMENT_BYTES);
    let bytes = read.unwrap_or_else(|_| Some(Vec::new()))?;
    let due = serde_json::from_slice::<DeferredRestart>(&bytes).map_or(0, |waiting| waiting.due);
    Some(Duration::from_secs(due).saturating_sub(boot::uptime()))
}

/// Restart the kubelet now, if a restart waits; returns true then.
pub fn carry_out(root: &LockedRoot<'_>, services: &dyn ServiceControl) -> Result<bool, TransactionError> {
    if time_left(root.as_root()).is_none() {
        return Ok(false);
    }
    services.perform(&action()).map_err(|error| TrustMaterialError::Kubelet(Box::new(error)))?;
    forget(root.as_root())?;
    Ok(true)
}

/// Remove the record of a restart that waits: the kubelet was restarted.
pub(super) fn forget(root: &Root) -> Result<(), HostError> {
    atomic_file::remove_if_present(root, &path())
}

fn path() -> ManagedPath {
    ManagedPath::constant(DOCUMENT)
}
