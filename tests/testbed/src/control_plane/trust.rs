//! Trust material of the cluster: the ControllerConfig, and the CA of the API server while that rotates.

use std::fs;

use k8s_openapi::ByteString;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Cluster, PREFIX};

const GROUP: &str = "machineconfiguration.openshift.io";
const NAME: &str = "machine-config-controller";
const NAMESPACE: &str = "openshift-machine-config-operator";

/// Certificates of `tests/fixtures/trust`, one after the other.
pub fn bundle(names: &[&str]) -> String {
    let read = |name: &&str| fs::read_to_string(crate::fixture("trust").join(format!("{name}.pem"))).unwrap();
    names.iter().map(read).collect()
}

/// Contents as the API has them.
pub fn base64(contents: &str) -> Value {
    serde_json::to_value(ByteString(contents.as_bytes().to_vec())).unwrap()
}

/// Kubeconfig of a node with this CA of the API server.
pub fn kubeconfig(authority: &str) -> String {
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: https://api:6443\n  \
         name: local\ncontexts:\n- context: {{cluster: local, user: kubelet}}\n  name: kubelet\n\
         current-context: kubelet\nusers:\n- name: kubelet\n  user: {{token: very-secret}}\n",
        base64(authority).as_str().unwrap()
    )
}

impl Cluster {
    /// Create the ControllerConfig with these fields of its `spec`, and remove the CA of the API server.
    pub fn create_trust(&self, fields: &Value) {
        let maps = self.namespaced_api("", "v1", "ConfigMap", NAMESPACE);
        // It is there after another test only.
        drop(self.runtime.block_on(maps.delete("kubeconfig-data", &DeleteParams::default())));
        let required = json!({"additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null,
            "cloudProviderConfig": "", "clusterDNSIP": "172.30.0.10", "dns": null, "images": {}, "infra": null,
            "ipFamilies": "IPv4", "kubeAPIServerServingCAData": base64(&bundle(&["kubelet-1"])), "network": null, "proxy": null,
            "releaseImage": "", "rootCAData": "YQ=="});
        let mut spec = required.as_object().unwrap().clone();
        spec.extend(fields.as_object().unwrap().clone());
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
            "metadata": {"name": NAME}, "spec": spec});
        self.create(GROUP, "v1", "ControllerConfig", &object);
    }

    /// Change the ControllerConfig by a merge patch; returns its resource version.
    pub fn patch_trust(&self, patch: &Value) -> String {
        let api = self.api(GROUP, "v1", "ControllerConfig");
        let patch = Patch::Merge(patch);
        let patched = self.runtime.block_on(api.patch(NAME, &PatchParams::default(), &patch)).unwrap();
        patched.metadata.resource_version.unwrap()
    }

    /// Set the annotation by which the operator asks nodes to follow a rotation.
    pub fn set_rotation(&self, value: &str) -> String {
        let key = format!("{PREFIX}service-ca-rotate");
        self.patch_trust(&json!({"metadata": {"annotations": {key: value}}}))
    }

    /// Set the CA of the API server, in PEM form.
    pub fn set_server_ca(&self, bundle: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kubeconfig-data", "namespace": NAMESPACE}, "data": {"ca-bundle.crt": bundle}});
        let api = self.namespaced_api("", "v1", "ConfigMap", NAMESPACE);
        let parameters = PatchParams::apply("tests").force();
        let patch = Patch::Apply(&object);
        self.runtime.block_on(api.patch("kubeconfig-data", &parameters, &patch)).unwrap();
    }

    /// Wait until the node reports the trust material of this resource version as applied.
    pub fn wait_for_trust(&self, version: &str) {
        self.wait_for_write(&format!("lastSyncedControllerConfigResourceVersion={version}"));
    }
}
