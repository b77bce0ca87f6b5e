//! Reboot policy: everything that has to be granted before an update disrupts the host, and the end of the grant.
//!
//! In this order: an open window, a slot of the lock, the hooks. A slot is not held while the host waits for a window,
//! since other hosts could use it: a window that closes before the slot is granted gives the slot back. Once everything
//! is granted, the disruption may begin, and the slot is held until the update is confirmed, over the reboot and over
//! restarts of the daemon.

mod attempt;
pub mod leases;
mod wait;

pub use attempt::{GrantPorts, SlotAnswer, SlotRequest, continued, end, request};
use jiff::Timestamp;
pub use wait::{GrantDelay, GrantWait};

use super::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::config::settings::reboot_window::WindowState;
use crate::core::state::reboot_grant::RebootGrant;
use crate::core::values::identifiers::BootId;

/// Progress of a grant before the disruption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrantProgress {
    pub slot: SlotState,
    /// True once the hooks have passed.
    pub hooks_passed: bool,
}

/// State of a lock's slot, as the host knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SlotState {
    /// Not requested, or released.
    #[default]
    Free,
    /// Requested: it may be held, since an answer can be lost.
    Requested,
    Granted,
}

impl SlotState {
    /// Return the state of the slot that a grant has.
    #[must_use]
    pub fn of(grant: &RebootGrant) -> Self {
        match &grant.slot {
            None => Self::Free,
            Some(slot) if slot.granted => Self::Granted,
            Some(_) => Self::Requested,
        }
    }
}

/// Next step towards a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantStep {
    /// Wait for the window that opens then.
    AwaitWindow { opens: Timestamp },
    /// Request a slot of the lock, or repeat the request.
    RequestSlot,
    /// Give the slot back, since the window closed before everything was granted.
    ReleaseSlot,
    /// Run the hooks.
    RunHooks,
    /// The disruption may begin.
    Grant,
}

/// Return the next step towards a grant under the state of the windows, with or without a lock.
#[must_use]
pub fn next_step(windows: WindowState, has_lock: bool, progress: GrantProgress) -> GrantStep {
    match (windows, progress.slot) {
        (WindowState::Closed { opens }, SlotState::Free) => GrantStep::AwaitWindow { opens },
        (WindowState::Closed { .. }, SlotState::Requested | SlotState::Granted) => GrantStep::ReleaseSlot,
        (_, SlotState::Free | SlotState::Requested) if has_lock => GrantStep::RequestSlot,
        _ if !progress.hooks_passed => GrantStep::RunHooks,
        _ => GrantStep::Grant,
    }
}

/// Return true if a grant has ended in this `boot`, so that its slot is released: the update is confirmed, or another config
/// is desired. `keeps_after_rollback` is true if a host whose update was rolled back keeps its slot until then.
#[must_use]
pub fn has_ended(
    lifecycle: &Lifecycle,
    grant: &RebootGrant,
    boot: &BootId,
    keeps_after_rollback: bool,
) -> bool {
    match &lifecycle.phase {
        DaemonPhase::Done => true,
        DaemonPhase::Blocked { .. } => !keeps_after_rollback,
        // Another host can have its turn until the drain is tried again, which begins with another request.
        DaemonPhase::AwaitingGrant { wait: Some(delay), is_requested: false, .. } => {
            matches!(delay.waits_for, GrantWait::Drain { .. })
        }
        // Before that, the host was observed: it runs a confirmed generation. In the boot of the grant a staged deployment
        // may be unlocked, and boot with any reboot: the slot is held until the next grant is requested.
        DaemonPhase::Fetching { target } | DaemonPhase::Preparing { target } => {
            !target.is_same(&ConfigRef::of_grant(grant)) && grant.granted_in.as_ref() != Some(boot)
        }
        _ => false,
    }
}

/// Return true if the host runs the update that the `grant` was for, and its boot is confirmed.
#[must_use]
pub fn is_confirmed(lifecycle: &Lifecycle, grant: &RebootGrant) -> bool {
    let granted = ConfigRef::of_grant(grant);
    lifecycle.phase == DaemonPhase::Done
        && lifecycle.current.as_ref().is_some_and(|current| current.is_same(&granted))
}

#[cfg(test)]
mod tests;
