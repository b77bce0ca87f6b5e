//! Cluster for one node: a real API server behind a recording proxy, and a stand-in for the drain controller.

mod connect_proxy;
mod controller;
mod disruption;
pub mod lone_server;
mod node_object;
mod proxy;
mod request_log;
mod server;
pub mod trust;

use std::fs;
use std::sync::Arc;

pub use connect_proxy::ConnectProxy;
pub use controller::Answers;
use controller::Controller;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use osimage::Os;
pub use proxy::Fault;
use proxy::Proxy;
pub use request_log::{RecordedRequest, RequestLog};
use serde_json::{Value, json};
use server::ControlPlane;
use tokio::runtime::Runtime;

use crate::agent::Agent;
use crate::booted::config::full_config;
use crate::booted::host::Host;
use crate::dbus::fake_logind::Script;
use crate::output_lines::LONGEST_WAIT;

/// Name of the node.
pub const NODE: &str = "edge-7";
/// User name of the node's kubelet.
pub const KUBELET: &str = "system:node:edge-7";
/// User name of the service account whose token a pod lends to the host for the Leases of the reboot lock.
const LOCK_ACCOUNT: &str = "system:serviceaccount:flameholder:flameholder";
/// File with that token, for the setting `reboot-lock.token-file`.
pub const LOCK_TOKEN: &str = "/run/media/lock-token";
/// CA certificate for hosts in tests: they have none of their own, and a TLS client needs at least one.
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/authority.pem");
/// Arguments of the daemon on the host of the node.
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

/// Control plane, proxy, controller and the runtime that they need.
pub struct Cluster {
    client: Client,
    pub proxy: Proxy,
    pub controller: Controller,
    // Dropped last: the other fields run on it.
    runtime: Arc<Runtime>,
    _control_plane: ControlPlane,
}

impl Cluster {
    /// Start a cluster whose node has these annotations.
    pub fn start(annotations: &[(&str, &str)]) -> Self {
        let runtime = Arc::new(
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
        );
        let control_plane = runtime.block_on(ControlPlane::start());
        let client = control_plane.client.clone();
        runtime.block_on(Self::empty_namespaces(&client));
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
        self.create_node_object(created["metadata"]["uid"].as_str().unwrap());
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &resource)
    }

    fn namespaced_api(&self, group: &str, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn create(&self, group: &str, version: &str, kind: &str, object: &Value) -> Value {
        let api = self.api(group, version, kind);
        let object = serde_json::from_value(object.clone()).unwrap();
        let created = self.runtime.block_on(api.create(&PostParams::default(), &object)).unwrap();
        serde_json::to_value(created).unwrap()
    }

    /// Create a rendered config, as the cluster's render controller does.
    pub fn render(&self, config: &Value) {
        self.create("machineconfiguration.openshift.io", "v1", "MachineConfig", config);
    }

    /// Tell the versions that the cluster was updated to, the newest first, each with its state (`Completed`, `Partial`).
    pub fn set_versions(&self, versions: &[(&str, &str)]) {
        let entry = |(version, state): &(&str, &str)| json!({"version": version, "state": state});
        let history: Vec<Value> = versions.iter().map(entry).collect();
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version"}, "status": {"history": history}});
        self.create("config.openshift.io", "v1", "ClusterVersion", &object);
    }

    /// Set the node disruption policy in the cluster's MachineConfiguration.
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

    /// Let changes of these sections through, in the cluster's MachineConfiguration, without a disruption policy.
    pub fn override_sections(&self, sections: &[&str]) {
        let overrides = json!({"storage": sections});
        let object = json!({"apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
            "metadata": {"name": "cluster"},
            "spec": {"managementState": "Managed", "irreconcilableValidationOverrides": overrides}});
        self.create("operator.openshift.io", "v1", "MachineConfiguration", &object);
        let api = self.api("operator.openshift.io", "v1", "MachineConfiguration");
        let patch = Patch::Merge(json!({"status": {"observedGeneration": 1}}));
        self.runtime.block_on(api.patch_status("cluster", &PatchParams::default(), &patch)).unwrap();
    }

    /// Set the node's desired config, as the cluster's node controller does.
    pub fn set_desired_config(&self, config: &str) {
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

    /// Bodies of all requests that the agent sent, as text: annotations, conditions, events.
    pub fn published(&self) -> String {
        let log = self.proxy.log();
        let bodies = log.requests.iter().map(|request| String::from_utf8_lossy(&request.body));
        bodies.collect::<Vec<_>>().join("\n")
    }

    /// Wait until the node has written this annotation or condition; writes in the background arrive a little
    /// later.
    pub fn wait_for_write(&self, write: &str) {
        let is_written = self.proxy.wait(LONGEST_WAIT, |log| log.writes().contains(&write)).is_some();
        assert!(is_written, "the node did not write `{write}`, but {:?}", self.proxy.log().writes());
    }

    /// Wait until the node watches objects of this path.
    pub fn wait_for_watch(&self, path: &str) {
        let is_begun = |log: &RequestLog| {
            let mut targets = log.requests.iter().map(|request| &request.target);
            targets.any(|target| target.starts_with(path) && target.contains("watch=true"))
        };
        let log = || self.proxy.log().lines();
        assert!(self.proxy.wait(LONGEST_WAIT, is_begun).is_some(), "no watch of {path}: {:?}", log());
    }

    /// Wait until the node has sent an event with this reason, which it does after the writes of a phase.
    pub fn wait_for_event(&self, reason: &str) {
        let is_sent = |log: &RequestLog| log.events().iter().any(|event| event == reason);
        let log = || self.proxy.log().events();
        assert!(
            self.proxy.wait(LONGEST_WAIT, is_sent).is_some(),
            "the node did not send `{reason}`, but {:?}",
            log()
        );
    }

    /// Host and cluster of a node whose current and desired config are the one with this text.
    pub fn with_node_on(text: &str) -> (Host, Self) {
        let host = Host::install(Os::new(1));
        let name = format!("rendered-{text}");
        let cluster = Self::start(&[
            ("currentConfig", &name),
            ("desiredConfig", &name),
            ("state", "Done"),
            ("reason", ""),
        ]);
        host.update(&host.config(full_config(text).json()), None);
        (host, cluster)
    }

    /// Introduce the host to the cluster and start the daemon on it.
    pub fn start_agent(&self, host: &Host) -> Agent {
        self.start_agent_with_logind(host, Script::default())
    }

    /// Start the daemon of a node on `rendered-one`, and let it wait for the drain for `rendered-two`.
    pub fn start_agent_that_drains(&self, host: &Host) -> Agent {
        self.render(full_config("two").json());
        let mut agent = self.start_agent(host);
        agent.wait_for_line("Done rendered-one");
        self.controller.answer(Answers::Never);
        self.set_desired_config("rendered-two");
        agent.wait_for_line("Draining rendered-two");
        agent
    }

    /// Introduce the host and start the daemon with a logind that follows `script`.
    pub fn start_agent_with_logind(&self, host: &Host, script: Script) -> Agent {
        self.introduce(host);
        Agent::start_with_logind(host, &ARGUMENTS, script)
    }

    /// Start the daemon on a host that has its kubeconfigs already.
    pub fn start_introduced_agent(&self, host: &Host) -> Agent {
        Agent::start(host, &ARGUMENTS)
    }

    /// Introduce the host and start the daemon with additional environment variables.
    pub fn start_agent_with_environment(&self, host: &Host, environment: &[(&str, &str)]) -> Agent {
        self.introduce(host);
        Agent::start_with_environment(host, &ARGUMENTS, Script::default(), environment)
    }

    /// Write the kubeconfigs with which the host reaches the cluster through the proxy, and the token of the reboot lock.
    pub fn introduce(&self, host: &Host) {
        fs::copy(AUTHORITY, host.path("media/authority.pem")).unwrap();
        fs::write(host.path("media/lock-token"), LOCK_ACCOUNT).unwrap();
        for (file, identity) in [("kubeconfig", "flameholder"), ("kubelet", KUBELET)] {
            let text = self.proxy.kubeconfig("/run/media/authority.pem", identity);
            fs::write(host.path("media").join(file), text).unwrap();
        }
    }
}
