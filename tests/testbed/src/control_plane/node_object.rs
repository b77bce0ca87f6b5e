//! The node's `MachineConfigNode` and the pools, as the cluster's operator and controllers write them.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{Cluster, NODE};

const GROUP: &str = "machineconfiguration.openshift.io";

impl Cluster {
    fn node_objects(&self) -> Api<DynamicObject> {
        self.api(GROUP, "v1", "MachineConfigNode")
    }

    /// Create the object as the operator does; `uid` is that of the Node.
    pub(super) fn create_node_object(&self, uid: &str) {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid});
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfigNode",
            "metadata": {"name": NODE, "ownerReferences": [owner]},
            "spec": {"node": {"name": NODE}, "pool": {"name": "worker"}, "configVersion": {"desired": "not-yet-set"}}});
        self.create(GROUP, "v1", "MachineConfigNode", &object);
    }

    /// Create the object again after it was deleted.
    pub fn restore_node_object(&self) {
        let node = self.runtime.block_on(self.api("", "v1", "Node").get(NODE)).unwrap();
        self.create_node_object(&node.uid().unwrap());
    }

    pub fn delete_node_object(&self) {
        self.runtime.block_on(self.node_objects().delete(NODE, &DeleteParams::default())).unwrap();
    }

    /// The object, or null if it does not exist.
    pub fn node_object(&self) -> Value {
        let object = self.runtime.block_on(self.node_objects().get_opt(NODE)).unwrap();
        serde_json::to_value(object).unwrap()
    }

    /// Set the desired config and image in its spec, as the node controller does before it annotates the Node
    /// of a cluster that reports images.
    pub fn set_desired_in_node_object(&self, config: &str, image: &str) {
        let spec =
            json!({"spec": {"configVersion": {"desired": config}, "configImage": {"desiredImage": image}}});
        let patch = Patch::Merge(&spec);
        self.runtime.block_on(self.node_objects().patch(NODE, &PatchParams::default(), &patch)).unwrap();
    }

    /// Change the object's status by a merge patch.
    pub fn patch_node_status(&self, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let api = self.node_objects();
        self.runtime.block_on(api.patch_status(NODE, &PatchParams::default(), &patch)).unwrap();
    }

    /// Create a pool of the nodes with this role.
    pub fn create_pool(&self, role: &str) {
        let pool = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfigPool", "metadata": {"name": role},
            "spec": {"nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{role}"): ""}}}});
        self.create(GROUP, "v1", "MachineConfigPool", &pool);
    }

    /// Create a pinned image set or change its images, and have the pool of this role name it, as the cluster's controllers
    /// do; returns its generation.
    pub fn pin_images(&self, role: &str, set: &str, images: &[&str]) -> i64 {
        let images: Vec<Value> = images.iter().map(|image| json!({"name": image})).collect();
        let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "PinnedImageSet",
            "metadata": {"name": set, "labels": {"machineconfiguration.openshift.io/role": role}},
            "spec": {"pinnedImages": images}});
        let sets = self.api(GROUP, "v1", "PinnedImageSet");
        let parameters = PatchParams::apply("tests").force();
        let applied = self.runtime.block_on(sets.patch(set, &parameters, &Patch::Apply(&object))).unwrap();
        let pool = json!({"spec": {"pinnedImageSets": [{"name": set}]}});
        let pools = self.api(GROUP, "v1", "MachineConfigPool");
        self.runtime.block_on(pools.patch(role, &PatchParams::default(), &Patch::Merge(&pool))).unwrap();
        applied.metadata.generation.unwrap()
    }

    /// Delete a pinned image set, and have the pool of this role name none.
    pub fn unpin_images(&self, role: &str, set: &str) {
        let sets = self.api(GROUP, "v1", "PinnedImageSet");
        self.runtime.block_on(sets.delete(set, &DeleteParams::default())).unwrap();
        let pool = json!({"spec": {"pinnedImageSets": null}});
        let pools = self.api(GROUP, "v1", "MachineConfigPool");
        self.runtime.block_on(pools.patch(role, &PatchParams::default(), &Patch::Merge(&pool))).unwrap();
    }

    /// Give the Node a role.
    pub fn add_role(&self, role: &str) {
        let patch = json!({"metadata": {"labels": {format!("node-role.kubernetes.io/{role}"): ""}}});
        let nodes = self.api("", "v1", "Node");
        self.runtime.block_on(nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
    }

    /// Conditions of the object that are not false.
    pub fn conditions(&self) -> Vec<String> {
        let object = self.node_object();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let set = conditions.iter().filter(|condition| condition["status"] != "False");
        set.map(|condition| {
            format!("{}={}", condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap())
        })
        .collect()
    }

    /// Message of a condition of the object.
    pub fn condition_message(&self, kind: &str) -> String {
        let object = self.node_object();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.iter().find(|condition| condition["type"] == kind);
        condition.unwrap_or_else(|| panic!("no {kind} in {conditions:?}"))["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}
