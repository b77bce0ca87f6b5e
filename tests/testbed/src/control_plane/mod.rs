//! A cluster for one node: a real API server behind a proxy of ours, and a stand-in for the controllers that answer
//! nodes.

mod controller;
mod proxy;
mod record;
mod server;

pub use controller::Answers;
pub use proxy::Fault;
pub use record::Asked;

use std::{fs, sync::Arc};

use controller::Controller;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use proxy::Proxy;
use serde_json::{Value, json};
use server::ControlPlane;
use tokio::runtime::Runtime;

use osimage::Os;

use crate::{
    agent::{Agent, PATIENT},
    booted::{config::whole, host::Host},
    dbus::fake_logind::Script,
};

/// The node's name.
pub const NODE: &str = "edge-7";
/// Who its kubelet is.
pub const KUBELET: &str = "system:node:edge-7";
/// A host in a test trusts nobody; whoever speaks TLS wants to know of somebody.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/authority.pem");
/// What the daemon is called with on a host that is its node.
pub const ARGUMENTS: [&str; 8] = [
    "--source",
    "kube",
    "--kubeconfig",
    "/run/media/kubeconfig",
    "--node-kubeconfig",
    "/run/media/kubelet",
    "--node-name",
    NODE,
];
pub const PREFIX: &str = "machineconfiguration.openshift.io/";

/// Everything, for as long as it lives.
pub struct Cluster {
    client: Client,
    pub proxy: Proxy,
    pub controller: Controller,
    // Dropped last: the others run on it, and talk to it.
    runtime: Arc<Runtime>,
    _control_plane: ControlPlane,
}

impl Cluster {
    /// Starts it, with a node that is what its annotations say.
    pub fn start(annotations: &[(&str, &str)]) -> Self {
        let runtime = Arc::new(
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
        );
        let control_plane = runtime.block_on(ControlPlane::start());
        let client = control_plane.client.clone();
        let proxy = Proxy::start(&runtime, client.clone());
        let controller = Controller::start(&runtime, client.clone());
        let cluster = Self { client, proxy, controller, runtime, _control_plane: control_plane };
        cluster.create_node(annotations);
        cluster
    }

    fn create_node(&self, annotations: &[(&str, &str)]) {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), json!(value))).collect();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "annotations": annotations}});
        let created: Value = self.create("", "v1", "Node", &node);
        let uid = created["metadata"]["uid"].as_str().unwrap();
        self.create(
            "machineconfiguration.openshift.io",
            "v1",
            "MachineConfigNode",
            &json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
                "metadata": {"name": NODE, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid}]},
                "spec": {"node": {"name": NODE}, "pool": {"name": "worker"}, "configVersion": {"desired": "not-yet-set"}}}),
        );
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &resource)
    }

    fn create(&self, group: &str, version: &str, kind: &str, object: &Value) -> Value {
        let api = self.api(group, version, kind);
        let object = serde_json::from_value(object.clone()).unwrap();
        let created = self.runtime.block_on(api.create(&PostParams::default(), &object)).unwrap();
        serde_json::to_value(created).unwrap()
    }

    /// Renders a config, as the cluster's render controller does.
    pub fn render(&self, config: &Value) {
        self.create("machineconfiguration.openshift.io", "v1", "MachineConfig", config);
    }

    /// What its operator says of disruptions.
    pub fn set_policy(&self, policies: &Value) {
        let object = json!({"apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
            "metadata": {"name": "cluster"}, "spec": {"managementState": "Managed"}});
        self.create("operator.openshift.io", "v1", "MachineConfiguration", &object);
        let api = self.api("operator.openshift.io", "v1", "MachineConfiguration");
        let status = json!({"status": {"observedGeneration": 1,
            "nodeDisruptionPolicyStatus": {"clusterPolicies": policies}}});
        let patch = Patch::Merge(&status);
        self.runtime.block_on(api.patch_status("cluster", &PatchParams::default(), &patch)).unwrap();
    }

    /// Wants the node to be this, as the cluster's node controller does.
    pub fn want(&self, config: &str) {
        self.annotate("desiredConfig", Some(config));
    }

    pub fn annotate(&self, key: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {format!("{PREFIX}{key}"): value}}});
        let api = self.api("", "v1", "Node");
        self.runtime.block_on(api.patch(NODE, &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
    }

    pub fn annotation(&self, key: &str) -> Option<String> {
        let node = self.runtime.block_on(self.api("", "v1", "Node").get(NODE)).unwrap();
        node.metadata.annotations?.get(&format!("{PREFIX}{key}")).cloned()
    }

    /// The conditions of its `MachineConfigNode` that are not false.
    pub fn conditions(&self) -> Vec<String> {
        let api = self.api("machineconfiguration.openshift.io", "v1", "MachineConfigNode");
        let node = self.runtime.block_on(api.get(NODE)).unwrap();
        let conditions = node.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let set = conditions.iter().filter(|condition| condition["status"] != "False");
        set.map(|condition| {
            format!("{}={}", condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap())
        })
        .collect()
    }

    /// Waits until the node has said that; what is said in the background comes a little later.
    pub fn is_told(&self, what: &str) {
        let is_told = self.proxy.wait(PATIENT, |record| record.told().contains(&what)).is_some();
        assert!(is_told, "`{what}` is not told, but {:?}", self.proxy.record().told());
    }

    /// A node that is this config already, whose cluster wants it to be that.
    pub fn with_node_on(text: &str) -> (Host, Self) {
        let host = Host::install(Os::new(1));
        let name = format!("rendered-{text}");
        let cluster = Self::start(&[
            ("currentConfig", &name),
            ("desiredConfig", &name),
            ("state", "Done"),
            ("reason", ""),
        ]);
        host.update(&host.config(whole(text).json()), None);
        (host, cluster)
    }

    /// Starts the daemon on a host that is its node.
    pub fn agent(&self, host: &Host) -> Agent {
        self.agent_where(host, Script::default())
    }

    /// The same where logind follows a script.
    pub fn agent_where(&self, host: &Host, script: Script) -> Agent {
        self.introduce(host);
        Agent::start_where(host, &ARGUMENTS, script)
    }

    /// The same on a host that has its kubeconfigs already.
    pub fn agent_as_introduced(&self, host: &Host) -> Agent {
        Agent::start(host, &ARGUMENTS)
    }

    /// The same with these variables in its environment.
    pub fn agent_with(&self, host: &Host, environment: &[(&str, &str)]) -> Agent {
        self.introduce(host);
        Agent::start_with(host, &ARGUMENTS, Script::default(), environment)
    }

    /// Gives a host the kubeconfigs with which it reaches the cluster, by way of the proxy.
    fn introduce(&self, host: &Host) {
        fs::copy(AUTHORITY, host.path("media/authority.pem")).unwrap();
        for (file, identity) in [("kubeconfig", "flameholder"), ("kubelet", KUBELET)] {
            let text = self.proxy.kubeconfig("/run/media/authority.pem", identity);
            fs::write(host.path("media").join(file), text).unwrap();
        }
    }
}
