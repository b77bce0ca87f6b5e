//! The smallest image that skopeo opens, and a policy that rejects every image, in a temporary directory.

use std::fmt::Write as _;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;
use sha2::{Digest as _, Sha256};

const REJECT_ALL: &str = r#"{"default": [{"type": "reject"}]}"#;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Directory with image and policy, removed on drop. Every user can read it: skopeo may run without privileges.
pub(crate) struct ProbeImage(PathBuf);

impl ProbeImage {
    pub(crate) fn create() -> std::io::Result<Self> {
        // An unpredictable name that no other user can take first.
        let mut random = [0; 16];
        getrandom(&mut random[..], GetRandomFlags::empty())?;
        let name = hexadecimal(&random);
        let path = std::env::temp_dir().join(format!("flameholder-policy-{name}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let image = Self(path);
        image.fill()?;
        Ok(image)
    }

    /// The policy's path.
    pub(crate) fn policy(&self) -> PathBuf {
        self.0.join("policy.json")
    }

    /// The image in skopeo's notation.
    pub(crate) fn reference(&self) -> String {
        format!("oci:{}", self.0.display())
    }

    fn fill(&self) -> std::io::Result<()> {
        let config = "{}".to_owned();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest(&config), "size": config.len()},
            "layers": [],
        });
        let manifest = manifest.to_string();
        let listed = json!({"mediaType": MANIFEST, "digest": digest(&manifest), "size": manifest.len()});
        let index = json!({"schemaVersion": 2, "manifests": [listed]});
        for directory in ["blobs", "blobs/sha256"] {
            DirBuilder::new().create(self.0.join(directory))?;
        }
        self.write("policy.json", REJECT_ALL)?;
        self.write("oci-layout", r#"{"imageLayoutVersion": "1.0.0"}"#)?;
        self.write("index.json", &index.to_string())?;
        for blob in [config, manifest] {
            self.write(&format!("blobs/{}", digest(&blob).replace(':', "/")), &blob)?;
        }
        // Not left to the umask.
        for directory in ["blobs/sha256", "blobs", ""] {
            open_to_all(&self.0.join(directory), 0o755)?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        let path = self.0.join(name);
        std::fs::write(&path, text)?;
        open_to_all(&path, 0o644)
    }
}

impl Drop for ProbeImage {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

fn open_to_all(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

fn digest(blob: &str) -> String {
    format!("sha256:{}", hexadecimal(&Sha256::digest(blob)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
