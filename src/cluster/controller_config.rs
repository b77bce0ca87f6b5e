//! Reads the trust material of the cluster: watches the ControllerConfig, and reads the bundle of the API server's CA.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures::{Stream, StreamExt as _};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Api;
use kube::core::ClusterResourceScope;
use serde::Deserialize;

use crate::cluster::watch::watch;
use crate::cluster::{ClusterClient, ClusterError};
use crate::core::trust::certificate;
use crate::core::trust::document::{TrustFields, TrustVersion, from_base64};

/// Name of the only ControllerConfig.
const NAME: &str = "machine-config-controller";
/// Annotation by which the operator asks nodes to follow a rotation of the API server's CA.
const ROTATION: &str = "machineconfiguration.openshift.io/service-ca-rotate";
/// ConfigMap with that CA, in the namespace of the machine-config-operator.
const BUNDLE: &str = "/api/v1/namespaces/openshift-machine-config-operator/configmaps/kubeconfig-data";
const BUNDLE_KEY: &str = "ca-bundle.crt";

/// Trust material of a ControllerConfig.
#[derive(Debug, Clone)]
pub struct ControllerTrust {
    pub version: TrustVersion,
    pub fields: TrustFields,
}

/// The parts of a ControllerConfig that the agent reads.
#[derive(Debug, Clone, Deserialize)]
struct ControllerConfig {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: TrustFields,
}

impl Resource for ControllerConfig {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ControllerConfig".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "machineconfiguration.openshift.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "controllerconfigs".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl From<ControllerConfig> for ControllerTrust {
    fn from(config: ControllerConfig) -> Self {
        let ControllerConfig { metadata, spec } = config;
        let annotations = metadata.annotations.unwrap_or_default();
        let version = TrustVersion {
            resource_version: metadata.resource_version.unwrap_or_default(),
            rotation: annotations.get(ROTATION).cloned().unwrap_or_default(),
        };
        Self { version, fields: spec }
    }
}

/// The parts of a ConfigMap that the agent reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BundleMap {
    data: BTreeMap<String, String>,
    binary_data: BTreeMap<String, ByteString>,
}

impl ClusterClient {
    /// Watch the ControllerConfig: yields it at each change, and `None` while it does not exist. The stream goes on
    /// after an error.
    pub fn watch_trust(
        &self,
    ) -> Result<impl Stream<Item = Result<Option<ControllerTrust>, ClusterError>> + Send + use<>, ClusterError>
    {
        let configs: Api<ControllerConfig> = Api::all(self.reader.client()?);
        Ok(watch(configs, NAME).map(|seen| seen.map(|config| config.map(ControllerTrust::from))))
    }

    /// Read the bundle of the API server's CA, in PEM form. One without certificates is not written yet.
    pub async fn server_ca(&self) -> Result<ByteString, ClusterError> {
        let map: BundleMap = serde_json::from_slice(&self.get(BUNDLE).await?)
            .map_err(|error| ClusterError::ServerError(format!("the ConfigMap kubeconfig-data: {error}")))?;
        let bundle = bundle_of(map).filter(|bundle| certificate::parse_valid(&bundle.0).is_ok());
        let missing = || format!("certificates in {BUNDLE_KEY} of the ConfigMap kubeconfig-data");
        bundle.ok_or_else(|| ClusterError::NotFound(missing()))
    }
}

/// Return the bundle of the ConfigMap. As text it is in PEM form, or in base64 of that.
fn bundle_of(mut map: BundleMap) -> Option<ByteString> {
    map.binary_data.remove(BUNDLE_KEY).or_else(|| {
        let text = map.data.remove(BUNDLE_KEY)?;
        Some(from_base64(&text).unwrap_or_else(|| ByteString(text.into_bytes())))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_and_trust_material_are_read_from_the_object() {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
            "metadata": {"name": NAME, "resourceVersion": "42", "annotations": {ROTATION: "true"}},
            "spec": {"kubeAPIServerServingCAData": "YQ==", "cloudProviderCAData": null, "images": {"a": "b"}},
        });
        let config: ControllerConfig = serde_json::from_value(object).unwrap();
        let trust = ControllerTrust::from(config);
        assert_eq!(trust.version, TrustVersion { resource_version: "42".into(), rotation: "true".into() });
        assert!(trust.version.is_rotating());
        assert_eq!(trust.fields.kubelet_ca, Some(ByteString(b"a".to_vec())));
        assert!(!format!("{trust:?}").contains("YQ"));
    }

    #[test]
    fn bundle_is_text_or_bytes() {
        let bundle = |map: &serde_json::Value| bundle_of(serde_json::from_value(map.clone()).unwrap());
        let pem = "-----BEGIN CERTIFICATE-----\n";
        let bytes = |text: &str| Some(ByteString(text.as_bytes().to_vec()));
        assert_eq!(bundle(&json!({"data": {BUNDLE_KEY: pem}})), bytes(pem));
        assert_eq!(bundle(&json!({"data": {BUNDLE_KEY: "YWJj"}})), bytes("abc"));
        assert_eq!(bundle(&json!({"data": {BUNDLE_KEY: "YW\nJj\n"}})), bytes("abc"));
        assert_eq!(bundle(&json!({"binaryData": {BUNDLE_KEY: "YWJj"}})), bytes("abc"));
        assert_eq!(bundle(&json!({"data": {"other": "x"}})), None);
    }
}
