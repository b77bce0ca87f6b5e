//! Signatures of images in a registry: simple ones by GPG in a lookaside directory, and sigstore's beside the image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::program;

/// User of GPG's key.
const GPG_USER: &str = "images@tests.invalid";
/// Passphrase of the private keys of sigstore, which has no keys without one.
const PASSPHRASE: &str = "of a test";

/// A pair of keys of each kind, and the builder's skopeo, which pushes images and signs them.
///
/// Dropping it ends GPG's agent.
#[derive(Debug)]
pub struct ImageSigner {
    builder: PathBuf,
    folder: PathBuf,
}

/// Public keys of a signer, and where its signatures by GPG are.
#[derive(Debug, Clone)]
pub struct SigningKeys {
    /// File with the public key of GPG.
    pub gpg: PathBuf,
    /// File with the public key of sigstore.
    pub sigstore: PathBuf,
    /// Directory with the signatures by GPG, in folders named like the images.
    pub lookaside: PathBuf,
}

/// Kind of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureKind {
    Gpg,
    Sigstore,
}

impl ImageSigner {
    /// Create the keys in a folder.
    ///
    /// # Errors
    /// GPG or skopeo fails.
    pub fn create(builder: &Path, folder: &Path) -> Result<Self> {
        let signer = Self { builder: builder.to_owned(), folder: folder.to_owned() };
        for name in ["registries.d", "lookaside"] {
            let directory = folder.join(name);
            fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        }
        fs::write(folder.join("accepting.json"), r#"{"default": [{"type": "insecureAcceptAnything"}]}"#)?;
        fs::write(folder.join("passphrase"), PASSPHRASE)?;
        let registries = format!(
            "default-docker:\n  lookaside-staging: file://{}\n  use-sigstore-attachments: true\n",
            signer.keys().lookaside.display()
        );
        fs::write(folder.join("registries.d/tests.yaml"), registries)?;
        signer.create_gpg_key()?;
        let mut generate = signer.skopeo();
        generate.args(["generate-sigstore-key", "--output-prefix"]).arg(folder.join("sigstore"));
        program::read(generate.arg("--passphrase-file").arg(folder.join("passphrase")))?;
        Ok(signer)
    }

    fn create_gpg_key(&self) -> Result<()> {
        let mut home = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut home, 0o700);
        home.create(self.gpg_home()).with_context(|| format!("making {}", self.gpg_home().display()))?;
        let mut generate = self.gpg();
        generate.args(["--quick-generate-key", GPG_USER, "default", "default", "never"]);
        program::read(&mut generate)?;
        program::read(self.gpg().arg("--armor").arg("--output").arg(self.keys().gpg).arg("--export"))
            .map(drop)
    }

    /// Return the files for a host that verifies the signatures.
    #[must_use]
    pub fn keys(&self) -> SigningKeys {
        SigningKeys::of(&self.folder)
    }

    /// Push an image from an OCI layout to `docker://IMAGE`, unsigned.
    ///
    /// # Errors
    /// skopeo fails.
    pub fn push(&self, layout: &str, image: &str) -> Result<()> {
        program::read(&mut self.copy(layout, image)).map(drop)
    }

    /// Push an image from an OCI layout to `docker://IMAGE`, and sign it for this identity, or for its own name.
    ///
    /// # Errors
    /// skopeo fails.
    pub fn push_signed(
        &self,
        layout: &str,
        image: &str,
        kind: SignatureKind,
        identity: Option<&str>,
    ) -> Result<()> {
        let mut copy = self.copy(layout, image);
        match kind {
            SignatureKind::Gpg => copy.env("GNUPGHOME", self.gpg_home()).args(["--sign-by", GPG_USER]),
            SignatureKind::Sigstore => {
                copy.arg("--sign-by-sigstore-private-key").arg(self.folder.join("sigstore.private"));
                copy.arg("--sign-passphrase-file").arg(self.folder.join("passphrase"))
            }
        };
        program::read(copy.args(identity.map(|identity| format!("--sign-identity={identity}")))).map(drop)
    }

    fn copy(&self, layout: &str, image: &str) -> Command {
        let mut copy = self.skopeo();
        copy.arg("--policy").arg(self.folder.join("accepting.json"));
        copy.arg("--registries.d").arg(self.folder.join("registries.d"));
        copy.args(["copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false"]);
        copy.arg(format!("oci:{layout}")).arg(format!("docker://{image}"));
        copy
    }

    fn gpg_home(&self) -> PathBuf {
        self.folder.join("gpg")
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.arg("--homedir").arg(self.gpg_home()).args(["--batch", "--quiet", "--passphrase", ""]);
        gpg
    }

    fn skopeo(&self) -> Command {
        program::of_tree(&self.builder, "usr/bin/skopeo")
    }
}

impl SigningKeys {
    /// Find the keys of the signer that was created in a folder.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let [gpg, sigstore, lookaside] =
            ["gpg.pub", "sigstore.pub", "lookaside"].map(|name| folder.join(name));
        Self { gpg, sigstore, lookaside }
    }

    /// List the signatures by GPG, each with its path in the directory that skopeo looks into.
    pub(crate) fn gpg_signatures(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let root = &self.lookaside;
        let (mut files, mut open) = (Vec::new(), vec![root.clone()]);
        while let Some(directory) = open.pop() {
            for entry in
                fs::read_dir(&directory).with_context(|| format!("listing {}", directory.display()))?
            {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(root)?.display().to_string();
                    files.push((name, fs::read(&path)?));
                }
            }
        }
        Ok(files)
    }
}

impl Drop for ImageSigner {
    fn drop(&mut self) {
        let mut end = Command::new("gpgconf");
        end.arg("--homedir").arg(self.gpg_home()).args(["--kill", "all"]);
        // An agent that is left ends when its directory is removed.
        let _ = end.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
