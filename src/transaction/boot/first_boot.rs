//! What Ignition left to be completed, on a disk; and the end of that.

use crate::transaction::state::interrupted;
use serde::{Deserialize, Serialize};

use crate::core::plan::first_boot;
use crate::core::plan::first_boot::{COMPLETED, CONTENT, ENCAPSULATED, IGNITION_PRESET};
use crate::core::state::booted_state;
use crate::core::state::booted_state::{BootedState, PendingOutcome};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::facts::boot;
use crate::host::facts::booted::BootedDeployment;
use crate::host::fs::lock::HostLock;
use crate::host::{HostDisk as _, HostError, Root};

use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::remove_if_present;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::pending;

/// How long the parts of it took, over its reboot.
const TIMES: &str = "/var/lib/flameholder/first-boot";
const NEW_TIMES: &str = "/var/lib/flameholder/first-boot.new";

/// What is to be completed.
#[derive(Debug)]
pub struct FirstBootConfig {
    /// The configuration.
    pub configuration: DecodedConfig,
    /// Whether nothing is known of its files and units: the whole object is missing.
    pub is_hollow: bool,
}

/// Reads it; `None` where nothing is to be completed.
pub fn load(root: &Root) -> Result<Option<FirstBootConfig>, TransactionError> {
    let read = |path| root.read(&ManagedPath::constant(path), limits::DOCUMENT_BYTES);
    let Some(encapsulated) = read(ENCAPSULATED)? else { return Ok(None) };
    let content = read(CONTENT)?;
    let document = first_boot::configuration(&encapsulated, content.as_deref())?;
    let configuration = DecodedConfig::parse(document.to_string().as_bytes())?;
    Ok(Some(FirstBootConfig { configuration, is_hollow: content.is_none() }))
}

/// How far a configuration is on the host that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBootProgress {
    /// It does not run.
    NotApplied,
    /// It runs, and nobody rebooted for it in vain.
    Applied,
    /// It runs since a reboot that was for it: another one would lead here again.
    AppliedByReboot,
}

/// Finds out. What an interrupted change left is settled first.
pub fn progress(
    root: &Root,
    booted: &BootedDeployment,
    configuration: &DecodedConfig,
) -> Result<FirstBootProgress, TransactionError> {
    let boot_id = boot::boot_id();
    let _lock = HostLock::take(root)?;
    interrupted::recover_first(root, &boot_id)?;
    let record = CurrentState::load_record(root)?;
    let found = pending::load(root)?;
    let seen = booted.seen(record.as_ref(), found.as_ref());
    let is_ours = record.as_ref().is_some_and(|record| record.config_hash == configuration.hash());
    if !is_ours || booted_state::standing(seen) != BootedState::Complete {
        return Ok(FirstBootProgress::NotApplied);
    }
    match booted_state::pending_outcome(seen, &boot_id, None) {
        PendingOutcome::Nothing if booted.generation.is_none() => Ok(FirstBootProgress::Applied),
        PendingOutcome::Nothing | PendingOutcome::Booted => Ok(FirstBootProgress::AppliedByReboot),
        // It is to be left, or something newer is on its way.
        _ => Ok(FirstBootProgress::Applied),
    }
}

/// Says that the first boot is complete, durably: the last thing that is done for it.
pub fn complete(root: &Root) -> Result<(), HostError> {
    let _lock = HostLock::take(root)?;
    let [preset, encapsulated, completed] =
        [IGNITION_PRESET, ENCAPSULATED, COMPLETED].map(ManagedPath::constant);
    remove_if_present(root, &preset)?;
    root.sync(&[preset.parent()])?;
    remove_if_present(root, &completed)?;
    root.rename(&encapsulated, &completed)?;
    root.sync(&[encapsulated.parent()])?;
    remove_if_present(root, &ManagedPath::constant(TIMES))
}

/// How long a part took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTiming {
    /// What it was, as people are told.
    pub phase: String,
    /// In milliseconds.
    pub milliseconds: u64,
}

/// Keeps them over the reboot. Nothing depends on them but what people are told.
pub fn save_timings(root: &Root, times: &[PhaseTiming]) {
    let text = serde_json::to_vec(times).expect("times have only string keys");
    let (path, new) = (ManagedPath::constant(TIMES), ManagedPath::constant(NEW_TIMES));
    if let Err(error) = atomic_file::write(root, &path, &new, &text) {
        log::warn!("how long the first boot took so far cannot be kept: {error}");
    }
}

/// Those that were kept.
#[must_use]
pub fn load_timings(root: &Root) -> Vec<PhaseTiming> {
    let read = root.read(&ManagedPath::constant(TIMES), limits::DOCUMENT_BYTES).ok().flatten();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
