//! Manifest of an artifact: the layers that are to be fetched, and the form of each.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ArtifactError;
use super::files::normalized;
use crate::core::values::limits;

/// Annotation with the path of the file that a layer is.
const TITLE: &str = "org.opencontainers.image.title";
/// Annotation of a layer that is the archive of a directory, which the title names.
const UNPACK: &str = "io.deis.oras.content.unpack";

/// Manifest of an artifact, within the limits on layers and sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactManifest {
    pub layers: Vec<ArtifactLayer>,
}

/// Layer to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactLayer {
    /// Number in the manifest, from 1.
    pub number: usize,
    /// `sha256:…`
    pub digest: String,
    /// Bytes in the registry.
    pub size: u64,
    pub content: LayerContent,
}

/// Content of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerContent {
    /// One file with this path.
    File(String),
    /// An archive of files.
    Archive(LayerPacking),
}

/// Compression of a tar archive in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerPacking {
    Plain,
    Gzip,
    Zstd,
}

impl LayerPacking {
    /// Return the compression that the media type of a layer of an image names; `None` for other media types.
    #[must_use]
    pub fn of(media_type: &str) -> Option<Self> {
        let docker = "application/vnd.docker.image.rootfs.diff.tar";
        let oci = ["layer", "layer.nondistributable"]
            .map(|kind| format!("application/vnd.oci.image.{kind}.v1.tar"));
        let prefixes = oci.iter().map(String::as_str).chain([docker]);
        prefixes.filter_map(|prefix| media_type.strip_prefix(prefix)).find_map(|rest| match rest {
            "" => Some(Self::Plain),
            "+gzip" | ".gzip" => Some(Self::Gzip),
            "+zstd" | ".zstd" => Some(Self::Zstd),
            _ => None,
        })
    }
}

/// The parts of an OCI image manifest that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciManifest {
    #[serde(default)]
    layers: Vec<OciLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciLayer {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    urls: Option<Vec<String>>,
}

impl ArtifactManifest {
    /// Parse an OCI image manifest, and refuse one with too much, or with layers of other forms.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArtifactError> {
        if bytes.len() > limits::ARTIFACT_MANIFEST_BYTES {
            return Err(ArtifactError::ManifestSize);
        }
        let manifest: OciManifest =
            serde_json::from_slice(bytes).map_err(|error| ArtifactError::Manifest(error.to_string()))?;
        match manifest.layers.len() {
            0 => return Err(ArtifactError::Empty),
            count if count > limits::ARTIFACT_LAYERS => return Err(ArtifactError::Layers { count }),
            _ => {}
        }
        // Before anything is fetched.
        let total = manifest.layers.iter().map(|layer| layer.size).fold(0, u64::saturating_add);
        if total > limits::INFLATED_BYTES as u64 {
            return Err(ArtifactError::Size);
        }
        let layers = manifest.layers.into_iter().zip(1..).map(|(layer, number)| layer.read(number));
        Ok(Self { layers: layers.collect::<Result<_, _>>()? })
    }
}

impl OciLayer {
    fn read(self, number: usize) -> Result<ArtifactLayer, ArtifactError> {
        if self.urls.is_some_and(|urls| !urls.is_empty()) {
            return Err(ArtifactError::ForeignLayer(number));
        }
        let digits = self.digest.strip_prefix("sha256:").unwrap_or_default();
        if digits.len() != 64 || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ArtifactError::LayerDigest(number));
        }
        let annotations = self.annotations.unwrap_or_default();
        let is_directory = annotations.get(UNPACK).is_some_and(|value| value == "true");
        let title = annotations.get(TITLE).filter(|_| !is_directory);
        let content = match (title, LayerPacking::of(&self.media_type)) {
            (Some(title), _) => LayerContent::File(file_path(title, self.size)?),
            (None, Some(packing)) => LayerContent::Archive(packing),
            (None, None) => return Err(ArtifactError::Form { layer: number, media_type: self.media_type }),
        };
        Ok(ArtifactLayer { number, digest: self.digest, size: self.size, content })
    }
}

fn file_path(title: &str, size: u64) -> Result<String, ArtifactError> {
    let is_absolute = title.starts_with('/');
    let path = normalized(title).filter(|path| !is_absolute && !path.is_empty());
    let path = path.ok_or_else(|| ArtifactError::Path(title.to_owned()))?;
    if size > limits::DOCUMENT_BYTES as u64 {
        return Err(ArtifactError::FileSize { path });
    }
    Ok(path)
}
