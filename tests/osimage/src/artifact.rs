//! Artifacts of files in an OCI layout, as `oras push` and builds of images make them, and as no program should.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of a layer that is a tar archive.
pub const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

/// OCI layout with one tag, which names the manifest that was written last.
#[derive(Debug)]
pub struct ArtifactLayout(PathBuf);

impl ArtifactLayout {
    /// Create an empty layout.
    ///
    /// # Errors
    /// Its directories cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path.join("blobs/sha256"))
            .with_context(|| format!("making {}", path.display()))?;
        fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#)?;
        Ok(Self(path.to_owned()))
    }

    /// Return the layout's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Write an artifact of these files with the manifest that `oras push` makes, and return its digest.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn push_files(&self, files: &[(&str, &str)]) -> anyhow::Result<String> {
        let layer = |(title, text): &(&str, &str)| {
            let mut layer = self.layer(TAR, text.as_bytes())?;
            if let Some(layer) = layer.as_object_mut() {
                layer.insert("annotations".into(), json!({"org.opencontainers.image.title": title}));
            }
            Ok(layer)
        };
        self.push(&files.iter().map(layer).collect::<anyhow::Result<Vec<_>>>()?)
    }

    /// Write a blob as a layer of this media type, and return its descriptor.
    ///
    /// # Errors
    /// The blob cannot be written.
    pub fn layer(&self, media_type: &str, bytes: &[u8]) -> anyhow::Result<Value> {
        Ok(json!({"mediaType": media_type, "digest": self.blob(bytes)?, "size": bytes.len()}))
    }

    /// Write a manifest with these layers, let the tag name it, and return its digest.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn push(&self, layers: &[Value]) -> anyhow::Result<String> {
        let mut config = self.layer("application/vnd.oci.empty.v1+json", b"{}")?;
        if let Some(config) = config.as_object_mut() {
            config.insert("data".into(), json!("e30="));
        }
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.unknown.artifact.v1",
            "config": config, "layers": layers,
            "annotations": {"org.opencontainers.image.created": "2026-01-01T00:00:00Z"},
        });
        self.tag(&manifest, MANIFEST)
    }

    /// Write an index of manifests that are there, each for an architecture, let the tag name it, and return its digest.
    ///
    /// # Errors
    /// A file cannot be written or read.
    pub fn push_index(&self, manifests: &[(&str, &str)]) -> anyhow::Result<String> {
        let entry = |(architecture, digest): &(&str, &str)| {
            let size = fs::metadata(self.blob_path(digest))?.len();
            let platform = json!({"architecture": architecture, "os": "linux"});
            Ok(json!({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform}))
        };
        let manifests = manifests.iter().map(entry).collect::<anyhow::Result<Vec<_>>>()?;
        self.tag(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}), INDEX)
    }

    /// Put other bytes in place of a blob, which keeps its name.
    ///
    /// # Errors
    /// The blob cannot be written.
    pub fn forge(&self, digest: &str, bytes: &[u8]) -> anyhow::Result<()> {
        fs::write(self.blob_path(digest), bytes).with_context(|| format!("writing {digest}"))
    }

    fn tag(&self, manifest: &Value, media_type: &str) -> anyhow::Result<String> {
        let text = manifest.to_string();
        let digest = self.blob(text.as_bytes())?;
        let listed = json!({"mediaType": media_type, "digest": digest, "size": text.len()});
        let (path, new) = (self.0.join("index.json"), self.0.join(".index.json"));
        fs::write(&new, json!({"schemaVersion": 2, "manifests": [listed]}).to_string())?;
        // A registry that reads it at the same time finds the old or the new one.
        fs::rename(new, path)?;
        Ok(digest)
    }

    fn blob(&self, bytes: &[u8]) -> anyhow::Result<String> {
        let digest = format!("sha256:{:x}", Sha256::digest(bytes));
        self.forge(&digest, bytes)?;
        Ok(digest)
    }

    fn blob_path(&self, digest: &str) -> PathBuf {
        self.0.join("blobs").join(digest.replace(':', "/"))
    }
}
