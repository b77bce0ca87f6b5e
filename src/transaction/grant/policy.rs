//! Reboot policy of a host, from its settings and hooks.

use jiff::Timestamp;

use super::error::GrantError;
use super::{hooks, slot};
use crate::core::config::settings::Settings;
use crate::core::config::settings::reboot_window::OpenTime;
use crate::core::daemon::hook_verdicts::HookStage;
use crate::core::state::reboot_grant::{LockSlot, RebootGrant};
use crate::core::values::causes::chain;
use crate::host::RunningHost;
use crate::host::facts::time_zone::time_zone;
use crate::transaction::TransactionError;
use crate::transaction::grant::stored_grant;
use crate::transaction::state::error::StateError;
use crate::transaction::state::settings::settings;

/// Reboot policy of a host, for its status.
#[derive(Debug)]
pub struct RebootPolicy {
    /// Time for which the windows are open, or are open next; `None` if there is no window.
    pub open: Option<OpenTime>,
    /// Lock of which a slot is needed; `None` without one.
    pub lock: Option<String>,
    /// Grant that has not ended.
    pub grant: Option<RebootGrant>,
    /// Reasons why a part of the policy cannot be followed.
    pub faults: Vec<String>,
}

/// Return true if the reboot policy of the host has to grant a disruption. Settings that cannot be used may hold a policy.
#[must_use]
pub fn is_demanded(host: &RunningHost) -> bool {
    policy_settings(host).as_ref().map_or(true, demands_grant)
}

fn demands_grant(settings: &Settings) -> bool {
    !settings.reboot.windows.is_empty()
        || settings.reboot_lock.is_set()
        || hooks::exist(HookStage::BeforeDrain)
        || hooks::exist(HookStage::AfterConfirmation)
}

/// Describe the reboot policy of the host; `None` if it has none, and no grant is left of one.
#[must_use]
pub fn policy_of(host: &RunningHost) -> Option<RebootPolicy> {
    let grant = stored_grant::load(&host.root).unwrap_or_default();
    let loaded = policy_settings(host);
    if grant.is_none() && !loaded.as_ref().map_or(true, demands_grant) {
        return None;
    }
    let mut faults = Vec::new();
    // The reason why they cannot be used is reported by every other command.
    let settings = loaded.unwrap_or_default();
    let windows = &settings.reboot.windows;
    let open = match time_zone(windows.time_zone()) {
        Ok(zone) => windows.next_open(Timestamp::now(), &zone),
        Err(error) => {
            faults.push(chain(&error));
            None
        }
    };
    let lock = slot::slot_of(&settings).map_err(|error: GrantError| faults.push(chain(&error)));
    let lock = lock.unwrap_or_default().as_ref().map(LockSlot::lock);
    Some(RebootPolicy { open, lock, grant, faults })
}

/// Load the settings; the defaults where those that cannot be used hold no reboot policy.
pub(super) fn policy_settings(host: &RunningHost) -> Result<Settings, TransactionError> {
    match settings(&host.root) {
        Err(TransactionError::State(StateError::Settings(error))) if !error.may_hold_reboot_policy() => {
            Ok(Settings::default())
        }
        loaded => loaded,
    }
}
