//! Slot of a lock whose slots are Leases of a cluster.

use std::path::Path;
use std::time::Duration;

use crate::cluster::{ClusterError, ClusterIdentity, LeaseClient, RequestCounts};
use crate::core::config::settings::Settings;
use crate::core::daemon::grant::leases::{LeaseGroup, lease_duration};
use crate::core::daemon::grant::{SlotAnswer, SlotRequest};
use crate::core::history::update_phases::last_disruption;
use crate::core::state::reboot_grant::{LeasePlace, LockSlot};
use crate::core::values::causes::chain;
use crate::host::Root;
use crate::transaction::history;
use crate::transaction::state::status_files::LEASE_SIGHTINGS;

/// Slot that is a Lease, and the access to it.
#[derive(Debug)]
pub(super) struct LeaseSlot<'a> {
    slot: &'a LockSlot,
    place: &'a LeasePlace,
    identity: ClusterIdentity,
    /// True with a token of its own, in place of the kubeconfig's user.
    has_token: bool,
    /// Number of slots of the group.
    slots: u16,
    /// Time for which the slot is held without a renewal.
    pub(super) duration: Duration,
}

impl<'a> LeaseSlot<'a> {
    pub(super) fn of(slot: &'a LockSlot, place: &'a LeasePlace, settings: &Settings, root: &Root) -> Self {
        let lock = &settings.reboot_lock;
        let identity = ClusterIdentity::of(Path::new(&place.kubeconfig), RequestCounts::default());
        // The history is informative: without it, the duration is that of a host that was never updated.
        let entries = history::load(root).unwrap_or_default().entries;
        Self {
            slot,
            place,
            identity: identity.with_token(lock.access.token_file.as_deref()),
            has_token: lock.access.token_file.is_some(),
            slots: lock.slots(),
            duration: lease_duration(last_disruption(&entries)),
        }
    }

    fn client(&self) -> LeaseClient<'_> {
        LeaseClient {
            identity: &self.identity,
            namespace: &self.place.namespace,
            group: LeaseGroup { name: &self.slot.group, slots: self.slots, node: &self.slot.id },
            duration: self.duration,
        }
    }

    /// Send a request about the slot.
    pub(super) async fn send(&self, root: &Root, request: SlotRequest) -> Result<SlotAnswer, ClusterError> {
        match request {
            SlotRequest::Acquire => {
                let mut sightings = LEASE_SIGHTINGS.load(root).unwrap_or_default();
                let answer = self.client().acquire(&mut sightings).await;
                LEASE_SIGHTINGS.publish(root, &sightings);
                answer
            }
            SlotRequest::Release => self.client().release().await.map(|()| SlotAnswer::Granted),
        }
    }

    /// Describe a failed request. A kubelet is refused whatever its roles are: `NodeRestriction` lets it write the Lease of its
    /// own heartbeat only.
    pub(super) fn describe(&self, error: &ClusterError) -> String {
        let reason = chain(error);
        // User of a kubelet, and the namespace that `NodeRestriction` names.
        let is_kubelets = ["system:node:", "kube-node-lease"].iter().any(|name| reason.contains(name));
        match error {
            ClusterError::Denied(_) if !self.has_token && is_kubelets => {
                format!("{reason}; a kubelet may not take slots: set `token-file` in [reboot-lock]")
            }
            _ => reason,
        }
    }

    /// Renew the slot; false if another host has taken it.
    pub(super) async fn renew(&self) -> Result<bool, ClusterError> {
        self.client().renew().await
    }
}
