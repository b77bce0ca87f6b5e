//! Leases that stand for the slots of a lock: listed, taken, renewed, and given back.
//!
//! Each write carries the resource version that it was decided from, so that of two hosts which take the same slot one gets a
//! conflict.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::cluster::node::is_ready;
use crate::cluster::{ClusterError, ClusterIdentity, objects, with_timeout};
use crate::core::daemon::grant::SlotAnswer;
use crate::core::daemon::grant::leases::{LeaseGroup, LeaseSightings, LeaseStep, SlotLease};
use crate::host::facts::boot;

/// Label of the Leases of a group.
pub(super) const GROUP_LABEL: &str = "flameholder/lock-group";
/// Attempts to renew a Lease that others write as well.
const RENEWALS: u32 = 3;

/// Client for the Leases of a group.
#[derive(Debug)]
pub struct LeaseClient<'a> {
    pub identity: &'a ClusterIdentity,
    pub namespace: &'a str,
    pub group: LeaseGroup<'a>,
    /// Duration of a Lease that the host takes or renews.
    pub duration: Duration,
}

impl LeaseClient<'_> {
    /// Take a slot, or renew the one that the host holds. `sightings` remembers the Leases for the next request.
    pub async fn acquire(&self, sightings: &mut LeaseSightings) -> Result<SlotAnswer, ClusterError> {
        let mut passed_over = BTreeSet::new();
        let mut renewals = 0;
        loop {
            let leases = self.list().await?;
            let uptime = boot::uptime();
            sightings.note(&leases, uptime);
            let (name, written) = match self.group.next_step(&leases, sightings, uptime, &passed_over) {
                LeaseStep::Refuse(reason) => return Ok(SlotAnswer::Refused(reason)),
                LeaseStep::Create(name) => match self.create(&name).await {
                    // Not the Lease, which did not exist before.
                    Err(ClusterError::NotFound(missing)) => return Err(ClusterError::NotFound(missing)),
                    created => (name, created),
                },
                LeaseStep::Take(lease) => (lease.name.clone(), self.hold(&lease, true).await),
                LeaseStep::Renew(lease) => {
                    renewals += 1;
                    (lease.name.clone(), self.hold(&lease, false).await)
                }
                LeaseStep::TakeOver { lease, holder } => {
                    if self.is_down(&holder).await? {
                        passed_over.insert(lease.name);
                        continue;
                    }
                    log::warn!(
                        "taking over the lease {}, which {holder} has not renewed for its {} seconds",
                        lease.name,
                        lease.duration.as_secs()
                    );
                    (lease.name.clone(), self.hold(&lease, true).await)
                }
            };
            match written {
                Ok(()) => return Ok(SlotAnswer::Granted),
                // Another host was faster, or the Lease is gone since it was listed.
                Err(ClusterError::Conflict(_) | ClusterError::NotFound(_)) if renewals < RENEWALS => {
                    passed_over.insert(name);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Renew the slot that the host holds; false if it holds none any more.
    pub async fn renew(&self) -> Result<bool, ClusterError> {
        match self.own().await?.first() {
            Some(lease) => self.hold(lease, false).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Give back each slot that the host holds.
    pub async fn release(&self) -> Result<(), ClusterError> {
        for lease in self.own().await? {
            let spec = json!({"holderIdentity": null, "renewTime": null, "acquireTime": null});
            match self.patch(&lease, &spec).await {
                Ok(()) | Err(ClusterError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn own(&self) -> Result<Vec<SlotLease>, ClusterError> {
        let mut leases = self.list().await?;
        leases.retain(|lease| lease.holder.as_deref() == Some(self.group.node));
        Ok(leases)
    }

    fn api(&self) -> Result<Api<DynamicObject>, ClusterError> {
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        Ok(Api::namespaced_with(self.identity.client()?, self.namespace, &ApiResource::from_gvk(&kind)))
    }

    async fn list(&self) -> Result<Vec<SlotLease>, ClusterError> {
        let selected = ListParams::default().labels(&format!("{GROUP_LABEL}={}", self.group.name));
        let listed = with_timeout(self.api()?.list(&selected)).await?;
        Ok(listed.items.iter().map(slot_lease).collect())
    }

    /// True if the Node is there and not Ready: its host may be down. The hold of a Node that is gone has ended.
    async fn is_down(&self, node: &str) -> Result<bool, ClusterError> {
        let nodes = objects(self.identity.client()?, "", "Node");
        match with_timeout(nodes.get(node)).await {
            Ok(node) => Ok(is_ready(&node) != Some(true)),
            Err(ClusterError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn held(&self, is_new: bool) -> Value {
        let now = format!("{:.6}", Timestamp::now());
        // A Lease may not last longer than Kubernetes can count.
        let duration = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        let mut spec =
            json!({"holderIdentity": self.group.node, "leaseDurationSeconds": duration, "renewTime": now});
        if let (true, Some(spec)) = (is_new, spec.as_object_mut()) {
            spec.insert("acquireTime".to_owned(), now.into());
        }
        spec
    }

    async fn create(&self, name: &str) -> Result<(), ClusterError> {
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "labels": {GROUP_LABEL: self.group.name}},
            "spec": self.held(true),
        });
        let object = serde_json::from_value(object)
            .map_err(|error| ClusterError::Refused(format!("lease {name}: {error}")))?;
        with_timeout(self.api()?.create(&PostParams::default(), &object)).await.map(drop)
    }

    async fn hold(&self, lease: &SlotLease, is_new: bool) -> Result<(), ClusterError> {
        self.patch(lease, &self.held(is_new)).await
    }

    /// Change the Lease, unless another client changed it since it was listed.
    async fn patch(&self, lease: &SlotLease, spec: &Value) -> Result<(), ClusterError> {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": lease.version}, "spec": spec}));
        with_timeout(self.api()?.patch(&lease.name, &PatchParams::default(), &patch)).await.map(drop)
    }
}

fn slot_lease(object: &DynamicObject) -> SlotLease {
    let spec = object.data.get("spec").unwrap_or(&Value::Null);
    let holder = spec.get("holderIdentity").and_then(Value::as_str).filter(|holder| !holder.is_empty());
    let duration = spec.get("leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default();
    SlotLease {
        name: object.name_any(),
        holder: holder.map(str::to_owned),
        version: object.resource_version().unwrap_or_default(),
        duration: Duration::from_secs(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_without_a_holder_is_free() {
        let lease = |spec: Value| {
            let object = json!({"metadata": {"name": "g-0", "resourceVersion": "7"}, "spec": spec});
            slot_lease(&serde_json::from_value(object).unwrap())
        };
        for free in [json!({}), json!({"holderIdentity": null}), json!({"holderIdentity": ""})] {
            assert_eq!(lease(free).holder, None);
        }
        let held = lease(json!({"holderIdentity": "a", "leaseDurationSeconds": 90}));
        assert_eq!(
            (held.holder.as_deref(), held.version.as_str(), held.duration.as_secs()),
            (Some("a"), "7", 90)
        );
    }
}
