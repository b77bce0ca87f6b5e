//! Manifests of images, as far as the sizes of their layers go (OCI image specification; Docker's manifests of schema 2 have
//! the same members).

use serde::Deserialize;

use crate::core::pinned_images::pull_space::LayerSizes;

/// Manifest of an image, or index of the manifests for several platforms.
#[derive(Debug, PartialEq, Eq)]
pub enum ImageManifest {
    Layers(LayerSizes),
    /// Digest of the manifest for the platform.
    Index(String),
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

impl ImageManifest {
    /// Read a manifest or an index; `architecture` is spelled as Rust spells it. Fails with the reason.
    pub fn parse(document: &[u8], architecture: &str) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(document).map_err(|error| format!("the manifest is damaged: {error}"))?;
        let Document { layers, manifests } = document;
        if !layers.is_empty() {
            return Ok(Self::Layers(layers.into_iter().map(|layer| (layer.digest, layer.size)).collect()));
        }
        let wanted = oci_architecture(architecture);
        let is_wanted = |platform: &Platform| platform.os == "linux" && platform.architecture == wanted;
        let found = manifests.into_iter().find(|found| found.platform.as_ref().is_some_and(is_wanted));
        found
            .map(|found| Self::Index(found.digest))
            .ok_or_else(|| format!("the manifest has no layers, and none for linux/{wanted}"))
    }
}

/// Return the name that images have for an architecture.
fn oci_architecture(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(document: &serde_json::Value) -> Result<ImageManifest, String> {
        ImageManifest::parse(document.to_string().as_bytes(), "x86_64")
    }

    #[test]
    fn layers_of_a_manifest_are_read_with_their_sizes() {
        let layer = |digest: &str, size: u64| json!({"mediaType": "x", "digest": digest, "size": size});
        let manifest =
            json!({"schemaVersion": 2, "config": layer("c", 9), "layers": [layer("a", 1), layer("b", 2)]});
        let layers = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
        assert_eq!(parse(&manifest), Ok(ImageManifest::Layers(layers)));
    }

    #[test]
    fn index_names_the_manifest_of_the_platform() {
        let entry = |digest: &str, architecture: &str, os: &str| {
            let platform = json!({"architecture": architecture, "os": os});
            json!({"digest": digest, "size": 1, "platform": platform})
        };
        let entries =
            [entry("a", "arm64", "linux"), entry("w", "amd64", "windows"), entry("b", "amd64", "linux")];
        assert_eq!(parse(&json!({"manifests": entries})), Ok(ImageManifest::Index("b".to_owned())));
        let other = parse(&json!({"manifests": [entry("a", "arm64", "linux")]}));
        assert_eq!(other.unwrap_err(), "the manifest has no layers, and none for linux/amd64");
    }

    #[test]
    fn other_documents_are_no_manifests() {
        for damaged in
            [json!([]), json!({"layers": 1}), json!({"layers": [{"digest": "a", "size": -1}]}), json!({})]
        {
            assert!(parse(&damaged).is_err(), "{damaged}");
        }
    }
}
