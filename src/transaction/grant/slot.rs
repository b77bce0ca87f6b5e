//! Slot of a lock: requested from its server, renewed, and given back.

use crate::core::config::settings::Settings;
use crate::core::config::settings::reboot_lock::LockProtocol;
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::daemon::grant::{SlotAnswer, SlotRequest};
use crate::core::state::reboot_grant::{LeasePlace, LockAddress, LockSlot};
use crate::core::values::causes::chain;
use crate::core::values::paths::KUBELET_KUBECONFIG;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::fleet_identity::fleet_identity;
use crate::https::FleetLockClient;
use crate::transaction::grant::error::GrantError;
use crate::transaction::grant::lease_slot::LeaseSlot;

/// Return the slot that the settings demand, not granted yet; `None` without a lock.
pub(super) fn slot_of(settings: &Settings) -> Result<Option<LockSlot>, GrantError> {
    let lock = &settings.reboot_lock;
    let group = lock.group.as_str().to_owned();
    let id = lock.id.as_ref().map(|id| id.as_str().to_owned());
    let (address, id) = match lock.protocol {
        LockProtocol::None => return Ok(None),
        LockProtocol::FleetLock => {
            let server = lock.server.as_ref().ok_or(GrantError::NoServer)?.to_string();
            (LockAddress::FleetLock { server }, id.map_or_else(fleet_identity, Ok)?)
        }
        LockProtocol::Lease => {
            if !lock.group.names_leases() {
                return Err(GrantError::LeaseGroup(group));
            }
            let kubeconfig = lock.kubeconfig.as_ref().or(settings.source.kubeconfig.as_ref());
            let kubeconfig = kubeconfig.map_or(KUBELET_KUBECONFIG, |path| path.as_str()).to_owned();
            let namespace = lock.namespace().to_owned();
            let node = || settings.source.node_name.clone().unwrap_or_else(boot::host_name);
            (LockAddress::Leases(LeasePlace { kubeconfig, namespace }), id.unwrap_or_else(node))
        }
    };
    Ok(Some(LockSlot { address, group, id, granted: false }))
}

/// Send a request about a slot; an error is the reason why it was not granted, or may not have been.
pub(super) fn send(
    slot: &LockSlot,
    settings: &Settings,
    root: &Root,
    request: SlotRequest,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| chain(&error))?;
    let answer = match &slot.address {
        LockAddress::FleetLock { server } => {
            let server: ServerUrl = server.parse().map_err(|error| chain(&error))?;
            let access = &settings.reboot_lock.access;
            let client = FleetLockClient { server: &server, access, group: &slot.group, id: &slot.id };
            runtime.block_on(client.send(request)).map_err(|error| chain(&error))?
        }
        LockAddress::Leases(place) => {
            let lease = LeaseSlot::of(slot, place, settings, root);
            runtime.block_on(lease.send(root, request)).map_err(|error| lease.describe(&error))?
        }
    };
    match answer {
        SlotAnswer::Granted => Ok(()),
        SlotAnswer::Refused(reason) => Err(reason),
    }
}
