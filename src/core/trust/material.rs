//! Trust material, decoded: the contents of files by their paths, as MCD's certificate writer chooses them.

use std::collections::BTreeMap;

use super::certificate;
use super::certificate::{BundleError, CaCertificate};
use super::document::{RegistryBundle, TrustDocument};
use crate::core::values::names::{ManagedPath, NAME_MAX};
use crate::core::values::paths::{CLOUD_CA, KUBELET_CA, MERGED_PULL_SECRET, REGISTRY_CAS};
use crate::core::values::refusal::{Refusal, RefusalList};

/// File name of a registry's certificates in its directory.
const REGISTRY_CA: &str = "ca.crt";

/// Decoded trust material.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustMaterial {
    /// Files with fixed paths.
    pub files: BTreeMap<ManagedPath, TrustFile>,
    /// Certificates of image registries, by the directories below [`REGISTRY_CAS`].
    pub registries: BTreeMap<ManagedPath, Vec<u8>>,
    /// Certificates of the API server's CA; empty while the cluster does not rotate it.
    pub server_ca: Vec<CaCertificate>,
    /// Parts that are left out, each with the reason.
    pub left_out: Vec<String>,
}

/// File of trust material.
#[derive(Clone, PartialEq, Eq)]
pub struct TrustFile {
    pub contents: Vec<u8>,
    /// True if only root may read it.
    pub is_secret: bool,
}

impl std::fmt::Debug for TrustFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.contents.len())
    }
}

impl TrustMaterial {
    /// Decode a document. Refused are contents that the kubelet or the container runtime could not read: a
    /// kubelet that cannot read its CA does not start.
    pub fn decode(document: &TrustDocument) -> Result<Self, RefusalList> {
        let mut decoding = Decoding { material: Self::default(), refused: Vec::new() };
        decoding.fixed_files(document);
        let TrustDocument { fields, server_ca } = document;
        decoding.registries("imageRegistryBundleData", fields.image_registry_bundle_data.as_deref());
        decoding.registries("imageRegistryBundleUserData", fields.image_registry_bundle_user_data.as_deref());
        if let Some(bundle) = server_ca {
            decoding.server_ca(&bundle.0);
        }
        RefusalList::or(decoding.refused, decoding.material)
    }

    /// Return the path of a registry's certificates in its directory.
    #[must_use]
    pub fn registry_file(directory: &ManagedPath) -> ManagedPath {
        directory.join(REGISTRY_CA)
    }
}

struct Decoding {
    material: TrustMaterial,
    refused: Vec<Refusal>,
}

impl Decoding {
    fn fixed_files(&mut self, document: &TrustDocument) {
        let fields = &document.fields;
        let bytes = |field: &Option<k8s_openapi::ByteString>| {
            field.as_ref().map(|bytes| bytes.0.clone()).unwrap_or_default()
        };
        let kubelet_ca = bytes(&fields.kubelet_ca);
        if kubelet_ca.is_empty() {
            let reason = format!(
                "spec.kubeAPIServerServingCAData is empty; {KUBELET_CA} stays, since a kubelet does not start without certificates"
            );
            self.material.left_out.push(reason);
        } else {
            self.bundle("kubeAPIServerServingCAData", KUBELET_CA, kubelet_ca);
        }
        let cloud_ca = bytes(&fields.cloud_ca);
        if cloud_ca.is_empty() {
            // Static pods mount this file, so it is there in every cluster.
            self.file(CLOUD_CA, cloud_ca, false);
        } else {
            self.bundle("cloudProviderCAData", CLOUD_CA, cloud_ca);
        }
        let pull_secret = bytes(&fields.internal_registry_pull_secret);
        if !pull_secret.is_empty() {
            self.pull_secret(pull_secret);
        }
    }

    fn bundle(&mut self, field: &str, path: &str, contents: Vec<u8>) {
        match certificate::parse_bundle(&contents) {
            Ok(_) => self.file(path, contents, false),
            Err(error) => self.refuse(field, &error.to_string()),
        }
    }

    fn pull_secret(&mut self, contents: Vec<u8>) {
        let is_object =
            serde_json::from_slice::<serde_json::Value>(&contents).is_ok_and(|value| value.is_object());
        if is_object {
            self.file(MERGED_PULL_SECRET, contents, true);
        } else {
            self.refuse("internalRegistryPullSecret", "is not a JSON object");
        }
    }

    /// Add a file; its contents end with a line feed.
    fn file(&mut self, path: &str, mut contents: Vec<u8>, is_secret: bool) {
        if !contents.ends_with(b"\n") {
            contents.push(b'\n');
        }
        self.material.files.insert(ManagedPath::constant(path), TrustFile { contents, is_secret });
    }

    fn registries(&mut self, field: &str, bundles: Option<&[RegistryBundle]>) {
        for (index, bundle) in bundles.unwrap_or_default().iter().enumerate() {
            // A key of a ConfigMap has no colon.
            let name = bundle.file.replace("..", ":");
            if let Some(reason) = unusable_name(&name) {
                self.refuse(&format!("{field}[{index}].file"), reason);
                continue;
            }
            let directory = ManagedPath::constant(REGISTRY_CAS).join(&name);
            self.material.registries.insert(directory, bundle.data.0.clone());
        }
    }

    fn server_ca(&mut self, bundle: &[u8]) {
        match certificate::parse_valid(bundle) {
            Ok((certificates, invalid)) => {
                self.material.server_ca = certificates;
                if invalid > 0 {
                    let reason = format!("{invalid} certificates of the API server's CA are not valid X.509");
                    self.material.left_out.push(reason);
                }
            }
            Err(BundleError::Empty) => {
                self.material.left_out.push("the bundle of the API server's CA is still empty".to_owned());
            }
            Err(error) => {
                let field = "ConfigMap kubeconfig-data: data[ca-bundle.crt]";
                self.refused.push(Refusal::new(field, error.to_string()));
            }
        }
    }

    fn refuse(&mut self, field: &str, reason: &str) {
        self.refused.push(Refusal::new(format!("ControllerConfig: spec.{field}"), reason));
    }
}

/// Return the reason why a directory cannot have this name.
fn unusable_name(name: &str) -> Option<&'static str> {
    match name {
        "" | "." | ":" => Some("is not the name of a registry"),
        name if name.contains('/') => Some("has a `/`, which no registry's host and port has"),
        name if name.chars().any(char::is_control) => Some("has a control character"),
        name if name.len() > NAME_MAX => Some("is longer than 255 bytes"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::super::certificate::tests::AUTHORITY;
    use super::super::document::TrustFields;
    use super::*;

    fn document(fields: &serde_json::Value) -> TrustDocument {
        TrustDocument { fields: serde_json::from_value(fields.clone()).unwrap(), server_ca: None }
    }

    fn base64(text: &str) -> serde_json::Value {
        serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn material_goes_to_the_paths_of_mcd() {
        let material = TrustMaterial::decode(&document(&json!({
            "kubeAPIServerServingCAData": base64(AUTHORITY.trim_end()),
            "internalRegistryPullSecret": base64("{\"auths\":{}}"),
            "imageRegistryBundleData": [
                {"file": "registry.example..5000", "data": base64("one")},
                {"file": "plain", "data": base64("two")}],
            "imageRegistryBundleUserData": [{"file": "plain", "data": base64("three")}],
            "osImageURL": "unknown here",
        })))
        .unwrap();
        let file = |path: &str| &material.files[&ManagedPath::constant(path)];
        assert_eq!(file("/etc/kubernetes/kubelet-ca.crt").contents, AUTHORITY.as_bytes());
        assert_eq!(file(CLOUD_CA).contents, b"\n");
        assert_eq!(file(MERGED_PULL_SECRET).contents, b"{\"auths\":{}}\n");
        assert!(file(MERGED_PULL_SECRET).is_secret && !file(KUBELET_CA).is_secret);
        let registries: Vec<_> = material
            .registries
            .iter()
            .map(|(directory, data)| (directory.file_name(), data.as_slice()))
            .collect();
        assert_eq!(registries, [("plain", &b"three"[..]), ("registry.example:5000", b"one")]);
    }

    #[test]
    fn empty_kubelet_ca_replaces_nothing() {
        for fields in [json!({}), json!({"kubeAPIServerServingCAData": ""})] {
            let material = TrustMaterial::decode(&document(&fields)).unwrap();
            assert!(!material.files.contains_key(KUBELET_CA));
            assert!(material.left_out[0].contains("does not start without"), "{:?}", material.left_out);
            assert!(!material.files.contains_key(MERGED_PULL_SECRET));
        }
    }

    #[test]
    fn unusable_material_is_refused_by_its_field_without_its_contents() {
        let refusals = TrustMaterial::decode(&document(&json!({
            "kubeAPIServerServingCAData": base64("very-secret"),
            "cloudProviderCAData": base64("very-secret"),
            "internalRegistryPullSecret": base64("very-secret"),
            "imageRegistryBundleData": [
                {"file": "../../etc", "data": base64("x")}, {"file": "", "data": ""}, {"file": "a\nb", "data": ""},
                {"file": ".", "data": ""}, {"file": "..", "data": ""}],
        })))
        .unwrap_err()
        .to_string();
        for field in [
            "spec.kubeAPIServerServingCAData: has no certificate",
            "spec.cloudProviderCAData: has no certificate",
            "spec.internalRegistryPullSecret: is not a JSON object",
            "imageRegistryBundleData[0].file: has a `/`",
            "imageRegistryBundleData[1].file: is not the name",
            "imageRegistryBundleData[2].file: has a control",
            "imageRegistryBundleData[3].file: is not the name",
            "imageRegistryBundleData[4].file: is not the name",
        ] {
            assert!(refusals.contains(field), "{field}: {refusals}");
        }
        assert!(!refusals.contains("very-secret"), "{refusals}");
    }

    #[test]
    fn invalid_certificates_of_the_api_server_are_left_out() {
        let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        let of = |text: &str| {
            let server_ca = Some(ByteString(text.as_bytes().to_vec()));
            TrustMaterial::decode(&TrustDocument { fields: TrustFields::default(), server_ca })
        };
        let material = of(&format!("{bad}{AUTHORITY}")).unwrap();
        assert_eq!(material.server_ca.len(), 1);
        assert!(of("").unwrap().server_ca.is_empty());
        assert!(of(bad).unwrap_err().to_string().contains("kubeconfig-data"));
    }
}
