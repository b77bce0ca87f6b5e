//! Renewal of a slot that expires, while the daemon runs: during a drain, in the boot check, and for as long as a host keeps
//! its slot after a rollback.

use std::time::Duration;

use crate::core::daemon::grant::leases::renewal_interval;
use crate::core::state::reboot_grant::{LockAddress, RebootGrant};
use crate::core::values::causes::chain;
use crate::host::Root;
use crate::transaction::grant::lease_slot::LeaseSlot;
use crate::transaction::grant::stored_grant;
use crate::transaction::state::settings::settings_or_default;

/// Return true if the host holds a slot that it has to renew.
#[must_use]
pub fn is_needed(root: &Root) -> bool {
    let grant = stored_grant::load(root).unwrap_or_default();
    grant.is_some_and(|grant| grant.needs_renewal())
}

/// Renew the slot of the stored grant, and return the time until the next renewal; `None` if there is no slot to renew. A failure
/// is logged: before the host is disrupted further, the slot is requested again.
pub async fn renew(root: &Root) -> Option<Duration> {
    let grant = stored_grant::load(root).unwrap_or_default().filter(RebootGrant::needs_renewal)?;
    let slot = grant.slot?;
    let LockAddress::Leases(place) = &slot.address else { return None };
    let settings = settings_or_default(root);
    let lease = LeaseSlot::of(&slot, place, &settings, root);
    match lease.renew().await {
        Ok(true) => {}
        // An answer was lost before the slot was taken: it is requested again.
        Ok(false) if !slot.granted => {}
        Ok(false) => log::warn!(
            "{}: another host has taken the slot of {}, which was not renewed in time",
            grant.config,
            slot.lock()
        ),
        Err(error) => {
            log::warn!(
                "{}: the slot of {} cannot be renewed: {error}",
                grant.config,
                slot.lock(),
                error = chain(&error)
            );
        }
    }
    Some(renewal_interval(lease.duration))
}
