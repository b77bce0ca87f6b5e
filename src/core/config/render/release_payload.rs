//! Images of a release of `OpenShift` or OKD, as the two documents in its release image name them.

use serde::Deserialize;

use super::ReleaseImages;
use crate::core::values::image::ImageRef;

/// Path of the release's version in its image, as JSON.
pub const METADATA: &str = "release-manifests/release-metadata";
/// Path of the release's images in its image: an `ImageStream` as JSON.
pub const IMAGE_REFERENCES: &str = "release-manifests/image-references";
/// Names of the OS image: of `OpenShift`, of OKD, and of OKD before it had an operating system of its own.
const OS_NAMES: [&str; 3] = ["rhel-coreos", "stream-coreos", "fedora-coreos"];
/// What follows the name of the OS image in that of its extensions.
const EXTENSIONS: &str = "-extensions";

/// Version and images of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasePayload {
    pub version: String,
    pub images: ReleaseImages,
}

/// Release image whose documents cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleasePayloadError {
    #[error("its file {path} is malformed ({cause})")]
    Malformed { path: &'static str, cause: String },
    #[error("it has no file {0}: it is no release image")]
    Missing(&'static str),
    #[error("its release-metadata is of the kind {0:?}, not cincinnati-metadata-v0")]
    Kind(String),
    #[error(
        "its image-references name no OS image, thus none of {}; pass --os-image",
        OS_NAMES.join(", ")
    )]
    NoOsImage,
    #[error("its image {name} is named {reference:?}, which is no reference to an image ({cause})")]
    Reference { name: String, reference: String, cause: String },
}

#[derive(Deserialize)]
struct ReleaseMetadata {
    kind: String,
    version: String,
}

#[derive(Deserialize)]
struct ImageStream {
    spec: ImageStreamSpec,
}

#[derive(Deserialize)]
struct ImageStreamSpec {
    tags: Vec<ImageStreamTag>,
}

#[derive(Deserialize)]
struct ImageStreamTag {
    name: String,
    from: TagSource,
}

#[derive(Deserialize)]
struct TagSource {
    name: String,
}

impl ReleasePayload {
    /// Read the two documents.
    pub fn parse(metadata: &[u8], references: &[u8]) -> Result<Self, ReleasePayloadError> {
        let metadata: ReleaseMetadata = document(METADATA, metadata)?;
        if metadata.kind != "cincinnati-metadata-v0" {
            return Err(ReleasePayloadError::Kind(metadata.kind));
        }
        let stream: ImageStream = document(IMAGE_REFERENCES, references)?;
        let tags = stream.spec.tags;
        let named = |name: &str| tags.iter().find(|tag| tag.name == name);
        let os = OS_NAMES.iter().find_map(|name| named(name)).ok_or(ReleasePayloadError::NoOsImage)?;
        let extensions = named(&format!("{}{EXTENSIONS}", os.name)).map(reference).transpose()?;
        let images = ReleaseImages { os: Some(reference(os)?), extensions };
        Ok(Self { version: metadata.version, images })
    }
}

fn document<'a, T: Deserialize<'a>>(path: &'static str, bytes: &'a [u8]) -> Result<T, ReleasePayloadError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ReleasePayloadError::Malformed { path, cause: error.to_string() })
}

/// Return the reference of a tag, as it was given: the rendered config carries it.
fn reference(tag: &ImageStreamTag) -> Result<String, ReleasePayloadError> {
    let text = tag.from.name.clone();
    match text.parse::<ImageRef>() {
        Ok(_) => Ok(text),
        Err(error) => {
            let name = tag.name.clone();
            Err(ReleasePayloadError::Reference { name, reference: text, cause: error.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parsed(metadata: &Value, tags: &[(&str, &str)]) -> Result<ReleasePayload, ReleasePayloadError> {
        let tag = |(name, image): &(&str, &str)| json!({"name": name, "from": {"kind": "DockerImage", "name": image}});
        let tags: Vec<_> = tags.iter().map(tag).collect();
        let references =
            json!({"kind": "ImageStream", "spec": {"lookupPolicy": {"local": false}, "tags": tags}});
        ReleasePayload::parse(metadata.to_string().as_bytes(), references.to_string().as_bytes())
    }

    fn metadata() -> Value {
        json!({"kind": "cincinnati-metadata-v0", "version": "4.17.3", "previous": ["4.16.1"], "metadata": {}})
    }

    #[test]
    fn images_of_openshift_and_okd_are_found_by_name() {
        let os = format!("quay.io/openshift-release-dev/ocp-v4.0-art-dev@{DIGEST}");
        let tags = [("cli", os.as_str()), ("rhel-coreos", &os), ("rhel-coreos-extensions", &os)];
        let payload = parsed(&metadata(), &tags).unwrap();
        let images = ReleaseImages { os: Some(os.clone()), extensions: Some(os.clone()) };
        assert_eq!(payload, ReleasePayload { version: "4.17.3".into(), images });
        let okd = parsed(&metadata(), &[("stream-coreos", &os)]).unwrap();
        assert_eq!(okd.images, ReleaseImages { os: Some(os), extensions: None });
    }

    #[test]
    fn unusable_release_is_refused_by_its_fault() {
        let refused = |metadata: &Value, tags: &[_]| parsed(metadata, tags).unwrap_err().to_string();
        let none = refused(&metadata(), &[("machine-os-content", "a/b")]);
        assert!(none.contains("no OS image") && none.contains("--os-image"), "{none}");
        let bad = refused(&metadata(), &[("rhel-coreos", "not an image")]);
        assert!(bad.contains("image rhel-coreos is named \"not an image\""), "{bad}");
        let kind = refused(&json!({"kind": "other", "version": "1"}), &[]);
        assert!(kind.contains("\"other\""), "{kind}");
        let malformed = ReleasePayload::parse(b"{", b"").unwrap_err().to_string();
        assert!(malformed.contains(METADATA), "{malformed}");
    }
}
