//! Grant of a disruption under the reboot policy: requested before the host is drained, and ended once the update is
//! confirmed. The decisions are in [`core::daemon::grant`](crate::core::daemon::grant).

pub mod error;
pub mod hooks;
mod host_ports;
mod lease_slot;
mod policy;
mod slot;
pub mod slot_renewal;
pub mod stored_grant;

use error::GrantError;
use host_ports::HostPorts;
use jiff::Timestamp;
use policy::policy_settings;
pub use policy::{RebootPolicy, is_demanded, policy_of};

use crate::core::daemon::grant::leases::LONGEST_RETRY;
use crate::core::daemon::grant::{GrantDelay, continued};
use crate::core::daemon::lifecycle::ConfigRef;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::reboot_grant::LockSlot;
use crate::host::RunningHost;
use crate::host::facts::boot;
use crate::transaction::state::pending;
use crate::transaction::{TransactionError, history};

/// Request the grant to disrupt the host for an update to `target`; `None` if everything is granted.
pub fn request(host: &RunningHost, target: &ConfigRef) -> Result<Option<GrantDelay>, TransactionError> {
    use crate::core::daemon::grant::request;
    let settings = policy_settings(host)?;
    let demanded = slot::slot_of(&settings)?;
    let mut ports = HostPorts { root: &host.root, settings: &settings };
    let stored = stored_grant::load_or_set_aside(&host.root)?;
    let boot = &host.system.boot_id;
    let was_granted = stored.as_ref().is_some_and(|stored| stored.granted_in.as_ref() == Some(boot));
    let grant = continued(stored, target, Timestamp::now());
    let can_be_lost = demanded.as_ref().is_some_and(LockSlot::expires);
    match request(&mut ports, grant, demanded, boot)? {
        None => {
            if !was_granted {
                note(host, target)?;
            }
            Ok(None)
        }
        Some(waits_for) => {
            let interval = settings.reboot.retry_interval();
            let interval = if can_be_lost { interval.min(LONGEST_RETRY) } else { interval };
            let retry_after = waits_for.delay(Timestamp::now(), interval, boot::jitter());
            Ok(Some(GrantDelay { waits_for, retry_after }))
        }
    }
}

/// Fail unless the grant for `target` still holds: a slot that expires is renewed for the time in which the host cannot
/// renew it.
pub fn ensure_held(host: &RunningHost, target: &ConfigRef) -> Result<(), TransactionError> {
    let Some(grant) = stored_grant::load_or_set_aside(&host.root)? else { return Ok(()) };
    let is_of_this_disruption = grant.granted_in.as_ref() == Some(&host.system.boot_id)
        && ConfigRef::of_grant(&grant).is_same(target);
    if !is_of_this_disruption || !grant.slot.as_ref().is_some_and(LockSlot::expires) {
        return Ok(());
    }
    match request(host, target)? {
        None => Ok(()),
        Some(delay) => Err(GrantError::NotHeld(delay.waits_for).into()),
    }
}

/// Add the grant to the history, about the staged generation if there is one.
fn note(host: &RunningHost, target: &ConfigRef) -> Result<(), TransactionError> {
    let staged = pending::load(&host.root)?;
    let staged = staged.filter(|pending| ConfigRef::of(&pending.staged.record).is_same(target));
    let note = match staged {
        Some(pending) => HistoryNote::of(&pending.staged.record),
        None => HistoryNote { config: Some(target.config.clone()), ..HistoryNote::default() },
    };
    history::note(&host.root, HistoryEvent::Granted, note);
    Ok(())
}

/// End a grant: run the hooks if its update is confirmed, and give the slot back. Repeated until it succeeds.
pub fn end(host: &RunningHost, is_confirmed: bool) -> Result<(), TransactionError> {
    let Some(grant) = stored_grant::load_or_set_aside(&host.root)? else { return Ok(()) };
    let settings = policy_settings(host)?;
    let config = grant.config.clone();
    let lock = grant.slot.as_ref().map(LockSlot::lock).unwrap_or_default();
    let mut ports = HostPorts { root: &host.root, settings: &settings };
    match crate::core::daemon::grant::end(&mut ports, grant, is_confirmed)? {
        None => {
            log::info!("{config}: the grant of its disruption has ended");
            Ok(())
        }
        Some(reason) => Err(GrantError::NotReleased { lock, reason }.into()),
    }
}
