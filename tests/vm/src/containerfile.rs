//! Images that buildah makes of the Containerfiles of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::lab::{Lab, REGISTRY, REPOSITORY, WITHOUT_AGENT};
use crate::program;
use crate::registry::Registry;

/// Name of the stage that compiles, which is not built: an installation takes its place.
const COMPILING_STAGE: &str = "build";

/// An image in storage of its own, which is removed with it.
#[derive(Debug)]
pub struct BuiltImage {
    storage: TempDir,
    /// ID of the image in the storage.
    id: String,
}

impl BuiltImage {
    /// Build a Containerfile of this repository on the image of the OS without the agent. `installed` is a folder with the tree
    /// of `cargo xtask install` in `installation`, which the last stage copies. The build has no network.
    ///
    /// # Errors
    /// A command of the Containerfile fails; the error has its output.
    pub fn build(lab: &Lab, containerfile: &str, installed: &Path) -> Result<Self> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let layout = lab.os_stage("images")?.join("layout");
        let mut image = Self { storage: tempfile::tempdir_in(lab.folder("run")?)?, id: String::new() };
        let id = image.storage.path().join("id");
        let mut build = image.buildah_offline();
        build.args(["build-using-dockerfile", "--isolation", "chroot", "--quiet", "--iidfile"]).arg(&id);
        build.arg("--build-context").arg(format!("{COMPILING_STAGE}={}", installed.display()));
        build.arg("--build-arg").arg(format!("BASE=oci:{}:{WITHOUT_AGENT}", layout.display()));
        build.args(["--build-arg", "COMMIT="]);
        build.arg("--file").arg(repository.join(containerfile)).arg(&repository);
        program::read(&mut build).with_context(|| format!("building {containerfile}"))?;
        let text = fs::read_to_string(&id).with_context(|| format!("reading {}", id.display()))?;
        text.trim().clone_into(&mut image.id);
        Ok(image)
    }

    /// Run a command in a container of the image, and return its output.
    ///
    /// # Errors
    /// The command fails.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let container = program::read(self.buildah().arg("from").arg(&self.id))?;
        let mut run = self.buildah_offline();
        program::read(run.args(["run", "--isolation", "chroot", container.trim(), "--"]).args(command))
    }

    /// Return a label of the image.
    ///
    /// # Errors
    /// The image does not have it.
    pub fn label(&self, name: &str) -> Result<String> {
        let template = format!("{{{{index .OCIv1.Config.Labels \"{name}\"}}}}");
        let value = program::read(
            self.buildah().args(["inspect", "--type", "image", "--format", &template, &self.id]),
        )?;
        let value = value.trim();
        ensure!(!value.is_empty(), "the image has no label {name}");
        Ok(value.to_owned())
    }

    /// Start the registry with this image alone, and return the image's reference for the guest.
    ///
    /// # Errors
    /// The registry does not start, or refuses the image.
    pub fn serve(&self, registry: &mut Registry) -> Result<String> {
        registry.start_anew()?;
        let digest = self.storage.path().join("digest");
        let target = format!("docker://127.0.0.1:{}/{REPOSITORY}:built", registry.port());
        let mut push = self.buildah();
        push.args(["push", "--quiet", "--tls-verify=false", "--digestfile"]).arg(&digest);
        program::read(push.arg(&self.id).arg(target))?;
        let digest = fs::read_to_string(&digest).with_context(|| format!("reading {}", digest.display()))?;
        Ok(format!("{REGISTRY}/{REPOSITORY}@{}", digest.trim()))
    }

    /// Write the image to a file, as an OCI archive.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, file: &Path) -> Result<()> {
        let mut push = self.buildah();
        push.args(["push", "--quiet"]).arg(&self.id).arg(format!("oci-archive:{}", file.display()));
        program::read(&mut push).map(drop)
    }

    fn buildah(&self) -> Command {
        let mut buildah = Command::new("buildah");
        buildah.args(self.options());
        buildah
    }

    /// Return a command of buildah in a network namespace of its own.
    fn buildah_offline(&self) -> Command {
        let mut buildah = Command::new("unshare");
        buildah.args(["--net", "--", "buildah"]).args(self.options());
        buildah
    }

    fn options(&self) -> [PathBuf; 6] {
        let folder = |name: &str| self.storage.path().join(name);
        // Copies instead of mounts: a container host need not be one itself.
        [
            "--root".into(),
            folder("root"),
            "--runroot".into(),
            folder("run"),
            "--storage-driver".into(),
            "vfs".into(),
        ]
    }
}
