//! Trust material as the cluster holds it, and its version.

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

/// Fields of a ControllerConfig's `spec` that hold trust material (CRD
/// `controllerconfigs.machineconfiguration.openshift.io`). In JSON, contents are in base64.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrustFields {
    /// Certificates by which the kubelet recognises its clients.
    #[serde(rename = "kubeAPIServerServingCAData")]
    pub kubelet_ca: Option<ByteString>,
    /// Certificates of the cloud provider's API.
    #[serde(rename = "cloudProviderCAData")]
    pub cloud_ca: Option<ByteString>,
    /// Pull secret of the cluster, merged with the credentials of its own registry.
    pub internal_registry_pull_secret: Option<ByteString>,
    /// Certificates of image registries that the cluster knows.
    pub image_registry_bundle_data: Option<Vec<RegistryBundle>>,
    /// Certificates of image registries that a user added. They precede the cluster's.
    pub image_registry_bundle_user_data: Option<Vec<RegistryBundle>>,
}

/// Certificates of an image registry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryBundle {
    /// Host and port of the registry, with `..` in place of the colon.
    pub file: String,
    #[serde(default)]
    pub data: ByteString,
}

/// Trust material of one version.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrustDocument {
    pub fields: TrustFields,
    /// Certificates of the API server's CA, in PEM form; `None` while the cluster does not rotate it.
    pub server_ca: Option<ByteString>,
}

/// Version of trust material, as the Node's annotations report it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustVersion {
    /// Resource version of the ControllerConfig.
    pub resource_version: String,
    /// Value of its annotation `machineconfiguration.openshift.io/service-ca-rotate`; empty without one.
    pub rotation: String,
}

impl TrustVersion {
    /// Return true if the cluster rotates the CA of its API server.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.rotation == "true"
    }
}

/// Decode base64, of one line or several; `None` if the text is none.
#[must_use]
pub fn from_base64(text: &str) -> Option<ByteString> {
    let line: String = text.split_whitespace().collect();
    serde_json::from_value(serde_json::Value::String(line)).ok()
}

/// Shows sizes only: a pull secret is among the fields.
impl std::fmt::Debug for TrustFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = |field: &Option<ByteString>| field.as_ref().map(|bytes| bytes.0.len());
        f.debug_struct("TrustFields")
            .field("kubelet_ca", &bytes(&self.kubelet_ca))
            .field("cloud_ca", &bytes(&self.cloud_ca))
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RegistryBundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryBundle").field("file", &self.file).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TrustDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrustDocument").field("fields", &self.fields).finish_non_exhaustive()
    }
}
