//! Objects of the cluster for a reboot policy: Leases, Nodes of other hosts, pods of the node.

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{Cluster, NODE};

/// Namespace of the Leases of a reboot lock.
const LOCK_NAMESPACE: &str = "flameholder";
/// Namespace of the pods.
const POD_NAMESPACE: &str = "shop";

impl Cluster {
    fn leases(&self) -> Api<DynamicObject> {
        self.namespaced_api("coordination.k8s.io", "v1", "Lease", LOCK_NAMESPACE)
    }

    /// Let a host hold the Lease `GROUP-0` of this duration.
    pub fn hold_lease(&self, group: &str, holder: &str, seconds: u32) {
        let name = format!("{group}-0");
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds});
        let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "labels": {"flameholder/lock-group": group}}, "spec": spec});
        let api = self.leases();
        self.runtime.block_on(async {
            if api.get_opt(&name).await.unwrap().is_some() {
                let patch = Patch::Merge(json!({"spec": spec}));
                api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            } else {
                let object = serde_json::from_value(object).unwrap();
                api.create(&PostParams::default(), &object).await.unwrap();
            }
        });
    }

    /// Give the Lease `GROUP-0` back for its holder.
    pub fn release_lease(&self, group: &str) {
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
        let api = self.leases();
        self.runtime.block_on(api.patch(&format!("{group}-0"), &PatchParams::default(), &patch)).unwrap();
    }

    /// Change the spec of a pool.
    pub fn set_pool(&self, name: &str, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let api = self.api("machineconfiguration.openshift.io", "v1", "MachineConfigPool");
        self.runtime.block_on(api.patch(name, &PatchParams::default(), &patch)).unwrap();
    }

    /// Wait until the report on the node has this phase.
    pub fn wait_for_report(&self, phase: &str) {
        let needle = format!("\\\"phase\\\":\\\"{phase}\\\"");
        let is_sent = |log: &super::RequestLog| {
            let bodies = log.requests.iter().rev().map(|request| String::from_utf8_lossy(&request.body));
            let mut reports = bodies.filter(|body| body.contains("flameholder/report"));
            reports.next().is_some_and(|body| body.contains(&needle))
        };
        let seen = self.proxy.wait(crate::output_lines::LONGEST_WAIT, is_sent);
        assert!(seen.is_some(), "no report of {phase}: {}", self.published());
    }

    /// Annotation of the node.
    pub fn node_annotation(&self, key: &str) -> Option<String> {
        let node = self.runtime.block_on(self.api("", "v1", "Node").get(NODE)).unwrap();
        node.metadata.annotations?.get(key).cloned()
    }

    /// Holder of the Lease `GROUP-0`.
    pub fn lease_holder(&self, group: &str) -> Option<String> {
        let lease = self.runtime.block_on(self.leases().get_opt(&format!("{group}-0"))).unwrap()?;
        lease.data.pointer("/spec/holderIdentity").and_then(Value::as_str).map(str::to_owned)
    }

    /// Create or change the Node of another host.
    pub fn set_node_ready(&self, name: &str, status: &str) {
        assert_ne!(name, NODE);
        let api = self.api("", "v1", "Node");
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        self.runtime.block_on(async {
            if api.get_opt(name).await.unwrap().is_none() {
                let object = serde_json::from_value(object).unwrap();
                api.create(&PostParams::default(), &object).await.unwrap();
            }
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(&conditions)).await.unwrap();
        });
    }

    /// Tell the operating system of the test's own node.
    pub fn set_node_os(&self, os: &str) {
        let status = json!({"status": {"nodeInfo": {"osImage": os}}});
        let (nodes, parameters, patch) =
            (self.api("", "v1", "Node"), PatchParams::default(), Patch::Merge(&status));
        self.runtime.block_on(nodes.patch_status(NODE, &parameters, &patch)).unwrap();
    }

    /// Remove what earlier tests left in namespaces.
    pub(super) async fn empty_namespaces(client: &kube::Client) {
        for (group, kind, namespace) in
            [("coordination.k8s.io", "Lease", LOCK_NAMESPACE), ("", "Pod", POD_NAMESPACE)]
        {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
            let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            objects.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        }
    }

    fn pods(&self) -> Api<DynamicObject> {
        self.namespaced_api("", "v1", "Pod", POD_NAMESPACE)
    }

    /// Create a pod on the node: its metadata besides the name, its volumes and its phase.
    pub fn create_pod(&self, name: &str, metadata: &Value, volumes: &Value, phase: &str) {
        let mut metadata = metadata.clone();
        metadata["name"] = name.into();
        let spec = json!({"nodeName": NODE, "volumes": volumes, "containers": [{"name": "c", "image": "i"}]});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        let api = self.pods();
        self.runtime.block_on(async {
            let object = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
            api.patch_status(name, &PatchParams::default(), &status).await.unwrap();
        });
    }

    pub fn delete_pod(&self, name: &str) {
        self.runtime.block_on(self.pods().delete(name, &DeleteParams::default())).unwrap();
    }

    /// Names of the pods that are left.
    pub fn pod_names(&self) -> Vec<String> {
        let listed = self.runtime.block_on(self.pods().list(&ListParams::default())).unwrap();
        let mut names: Vec<String> = listed.items.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// Wait until the node has asked for the eviction of this pod.
    pub fn wait_for_eviction(&self, pod: &str) {
        let target = format!("/{pod}/eviction");
        let is_asked =
            |log: &super::RequestLog| log.requests.iter().any(|request| request.target.ends_with(&target));
        assert!(
            self.proxy.wait(crate::output_lines::LONGEST_WAIT, is_asked).is_some(),
            "{pod} is not evicted"
        );
    }

    /// True if the node is cordoned.
    pub fn is_cordoned(&self) -> bool {
        let node = self.runtime.block_on(self.api("", "v1", "Node").get(NODE)).unwrap();
        node.data.pointer("/spec/unschedulable") == Some(&Value::Bool(true))
    }

    /// Cordon the node as an operator does.
    pub fn cordon(&self) {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
        let api = self.api("", "v1", "Node");
        self.runtime.block_on(api.patch(NODE, &PatchParams::default(), &patch)).unwrap();
    }
}
