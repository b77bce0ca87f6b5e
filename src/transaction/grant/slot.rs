//! Slot of a lock: requested from its server, and given back.

use crate::core::config::settings::reboot_lock::{LockProtocol, LockSettings};
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::daemon::grant::SlotRequest;
use crate::core::state::reboot_grant::LockSlot;
use crate::core::values::causes::chain;
use crate::host::facts::fleet_identity::fleet_identity;
use crate::https::{FleetLockClient, LockAnswer};
use crate::transaction::grant::error::GrantError;

/// Return the slot that the settings demand, not granted yet; `None` without a lock.
pub(super) fn slot_of(settings: &LockSettings) -> Result<Option<LockSlot>, GrantError> {
    match settings.protocol {
        LockProtocol::None => Ok(None),
        LockProtocol::FleetLock => {
            let server = settings.server.as_ref().ok_or(GrantError::NoServer)?;
            let id = settings.id.clone().map_or_else(fleet_identity, Ok)?;
            let group = settings.group.as_str().to_owned();
            Ok(Some(LockSlot { server: server.to_string(), group, id, granted: false }))
        }
    }
}

/// Send a request about a slot; an error is the reason why it was not granted, or may not have been.
pub(super) fn send(slot: &LockSlot, access: &ServerAccess, request: SlotRequest) -> Result<(), String> {
    let server: ServerUrl = slot.server.parse().map_err(|error| chain(&error))?;
    let client = FleetLockClient { server: &server, access, group: &slot.group, id: &slot.id };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|error| chain(&error))?.block_on(client.send(request)) {
        Ok(LockAnswer::Granted) => Ok(()),
        Ok(LockAnswer::Refused(reason)) => Err(reason),
        Err(error) => Err(chain(&error)),
    }
}
