//! The image that a host was installed from, from what its installer left on the disk (the *aleph* of CoreOS and bootc).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::redact_credentials;

/// The image that a host was installed from: its boot image. Old ones cannot boot newer configs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BootImage {
    /// Version of the OS, such as `43.20260301.3.0`; null if it is not known.
    pub version: Option<String>,
    /// Container image, without credentials; null if it is not known.
    pub image: Option<String>,
    /// Digest of the container image; null if it is not known.
    pub digest: Option<String>,
}

/// Documents of coreos-assembler (`build`, later `version` and `container-image`) and of bootc (`version`, `image`,
/// `digest`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct AlephDocument {
    version: Option<String>,
    build: Option<String>,
    image: Option<String>,
    digest: Option<String>,
    container_image: ContainerImage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct ContainerImage {
    image_name: Option<String>,
    image_digest: Option<String>,
}

impl BootImage {
    /// Parse the document that the installer left. Fails if it is no JSON object, or has members of other types.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let AlephDocument { version, build, image, digest, container_image } = serde_json::from_slice(bytes)?;
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            version: known(version).or(known(build)),
            image: known(image).or(known(container_image.image_name)).map(|image| redact_credentials(&image)),
            digest: known(digest).or(known(container_image.image_digest)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> BootImage {
        BootImage::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn documents_of_each_installer_are_read() {
        let coreos = r#"{"container-image": {"image-digest": "sha256:1", "image-labels": {"a": "b"}, "image-name":
            "quay.io/fedora/fedora-coreos:stable"}, "ostree-commit": "c", "ref": "", "version": "43.1"}"#;
        let image = Some("quay.io/fedora/fedora-coreos:stable".to_owned());
        let (version, digest) = (Some("43.1".to_owned()), Some("sha256:1".to_owned()));
        assert_eq!(parsed(coreos), BootImage { version, image, digest });
        let older =
            r#"{"build": "47.83.1", "ref": "", "ostree-commit": "c", "imgid": "rhcos-47-qemu.qcow2"}"#;
        assert_eq!(parsed(older), BootImage { version: Some("47.83.1".to_owned()), ..BootImage::default() });
        let bootc = r#"{"digest": "sha256:2", "kernel": "6.18", "selinux": "disabled", "timestamp": null, "version": "43"}"#;
        let (version, digest) = (Some("43".to_owned()), Some("sha256:2".to_owned()));
        assert_eq!(parsed(bootc), BootImage { version, digest, image: None });
    }

    #[test]
    fn other_documents_are_refused() {
        for text in ["", "[]x", "\"43\"", r#"{"version": 43}"#, r#"{"container-image": "x"}"#] {
            assert!(BootImage::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(parsed("{}"), BootImage::default());
    }
}
