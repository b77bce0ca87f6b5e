//! First boot: the configuration that Ignition left for the agent to complete, and the marker of its
//! completion.

use serde::{Deserialize, Serialize};

use crate::core::config::received::served;
use crate::core::plan::first_boot::IGNITION_PRESET;
use crate::core::state::booted_state;
use crate::core::state::booted_state::{BootedState, PendingOutcome};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{COMPLETED, CONTENT, ENCAPSULATED};
use crate::host::{HostDisk as _, HostError, LockedHost, LockedRoot, Root};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::remove_if_present;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::{interrupted, pending};

/// Duration of each phase of the first boot, kept across its reboot.
const TIMES: &str = "/var/lib/flameholder/first-boot";
const NEW_TIMES: &str = "/var/lib/flameholder/first-boot.new";

/// File that tells MCD's units of this boot that the first boot has an owner. Their drop-ins name it as well.
const OWNED: &str = "/run/flameholder/owns-first-boot";

/// Claim the first boot, so that MCD's units, which would complete it too, are skipped. Only a running agent does: where
/// its unit is masked, MCD completes the first boot.
pub fn claim(root: &Root) -> Result<(), HostError> {
    let new = ManagedPath::constant(&format!("{OWNED}.new"));
    atomic_file::write_to_run(root, &ManagedPath::constant(OWNED), &new, b"", atomic_file::ATTRIBUTES)
}

/// Configuration that the first boot has to complete.
#[derive(Debug)]
pub struct FirstBootConfig {
    /// Parsed MachineConfig.
    pub configuration: DecodedConfig,
    /// True if Ignition left only the OS part: files and units of the MachineConfig are unknown.
    pub is_incomplete: bool,
}

/// Load the configuration that Ignition left; `None` if the first boot is complete, or Ignition left none.
pub fn load(root: &Root) -> Result<Option<FirstBootConfig>, TransactionError> {
    let read = |path| root.read(&ManagedPath::constant(path), limits::DOCUMENT_BYTES);
    let Some(encapsulated) = read(ENCAPSULATED)? else { return Ok(None) };
    let content = read(CONTENT)?;
    let document = served::configuration(&encapsulated, content.as_deref())?;
    // Ignition has written the entries that no host takes already, so refusing them would only keep the node
    // from joining.
    let configuration = DecodedConfig::parse_applied(document.to_string().as_bytes())?;
    Ok(Some(FirstBootConfig { configuration, is_incomplete: content.is_none() }))
}

/// Progress of the first boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBootProgress {
    /// The booted deployment does not have this configuration.
    NotApplied,
    /// The configuration is applied, without a reboot for it.
    Applied,
    /// The configuration is applied since a reboot for it. If drift remains, another reboot would not help.
    AppliedByReboot,
}

/// Return the progress of `configuration` on the running host. Recovers an interrupted change first.
pub fn progress(
    host: &LockedHost<'_>,
    configuration: &DecodedConfig,
) -> Result<FirstBootProgress, TransactionError> {
    interrupted::recover_first(host)?;
    let booted = &host.running.booted;
    let record = CurrentState::load_record(host)?;
    let found = pending::load(host.as_root())?;
    let seen = booted.observation(record.as_ref(), found.as_ref());
    let is_ours = record.as_ref().is_some_and(|record| record.config_hash == configuration.config_hash());
    if !is_ours || booted_state::booted_state(seen) != BootedState::Complete {
        return Ok(FirstBootProgress::NotApplied);
    }
    match booted_state::pending_outcome(seen, host.boot_id(), None) {
        PendingOutcome::Nothing if booted.generation.is_none() => Ok(FirstBootProgress::Applied),
        PendingOutcome::Nothing | PendingOutcome::Booted => Ok(FirstBootProgress::AppliedByReboot),
        // The generation is being rolled back, or a newer one is pending.
        _ => Ok(FirstBootProgress::Applied),
    }
}

/// Mark the first boot as complete, durably. Called last: an interrupted first boot is repeated until then.
pub fn complete(root: &LockedRoot<'_>) -> Result<(), HostError> {
    let [preset, encapsulated, completed] =
        [IGNITION_PRESET, ENCAPSULATED, COMPLETED].map(ManagedPath::constant);
    remove_if_present(root.as_root(), &preset)?;
    root.sync(&[preset.parent()])?;
    remove_if_present(root.as_root(), &completed)?;
    root.rename(&encapsulated, &completed)?;
    root.sync(&[encapsulated.parent()])?;
    remove_if_present(root.as_root(), &ManagedPath::constant(TIMES))
}

/// Duration of one phase of the first boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTiming {
    /// Name of the phase, as printed.
    pub phase: String,
    pub milliseconds: u64,
}

/// Save the durations across the reboot. Failure is only logged: they are informative.
pub fn save_timings(root: &Root, times: &[PhaseTiming]) {
    let text = serde_json::to_vec(times).expect("times have only string keys");
    let (path, new) = (ManagedPath::constant(TIMES), ManagedPath::constant(NEW_TIMES));
    if let Err(error) = atomic_file::write(root, &path, &new, &text) {
        log::warn!("cannot save the durations of the first boot: {error}", error = chain(&error));
    }
}

/// Load the saved durations; empty if there are none, or they cannot be read.
#[must_use]
pub fn load_timings(root: &Root) -> Vec<PhaseTiming> {
    let read = root.read(&ManagedPath::constant(TIMES), limits::DOCUMENT_BYTES).ok().flatten();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
