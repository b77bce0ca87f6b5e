//! Sysroots with one deployment.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use ostree_ext::container::OstreeImageReference;
use ostree_ext::container::deploy::ORIGIN_CONTAINER;
use ostree_ext::container::store::{ImageImporter, ImageProxyConfig, PrepareResult};
use ostree_ext::gio::{self, Cancellable};
use ostree_ext::{glib, ostree};

use crate::image::{block_on, write_image};
use crate::tree::Os;

/// Repository in the origin of a generated image. The name does not resolve.
const REPOSITORY: &str = "ostree-unverified-registry:registry.invalid/fedora-coreos";

/// Directories of a physical root, as `ostree admin init-fs --modern` and CoreOS's image build leave them.
const TOPLEVEL: [&str; 3] = ["boot", "ostree", "var/tmp"];

/// Builder of a sysroot with one deployment, as an installer creates it on a disk.
#[derive(Debug, Clone)]
pub struct SysrootBuilder {
    os: Os,
    stateroot: String,
    kernel_arguments: Vec<String>,
    image: Option<String>,
    origin: Option<String>,
    bootloader: String,
}

impl SysrootBuilder {
    /// Deploy this OS in the stateroot `fedora-coreos` with the kernel arguments
    /// `root=LABEL=root rw console=ttyS0`.
    #[must_use]
    pub fn new(os: Os) -> Self {
        Self {
            os,
            stateroot: "fedora-coreos".into(),
            kernel_arguments: ["root=LABEL=root", "rw", "console=ttyS0"].map(str::to_owned).into(),
            image: None,
            origin: None,
            bootloader: "none".into(),
        }
    }

    /// Set the name of the stateroot.
    #[must_use]
    pub fn stateroot(mut self, name: &str) -> Self {
        name.clone_into(&mut self.stateroot);
        self
    }

    /// Append a kernel argument.
    #[must_use]
    pub fn kernel_argument(mut self, argument: &str) -> Self {
        self.kernel_arguments.push(argument.to_owned());
        self
    }

    /// Deploy the image of this reference (`ostree-unverified-image:oci:DIR`) instead of a generated one.
    #[must_use]
    pub fn image(mut self, reference: &str) -> Self {
        self.image = Some(reference.to_owned());
        self
    }

    /// Write this reference to the deployment's origin instead of the one that the image is read from.
    #[must_use]
    pub fn origin(mut self, reference: &str) -> Self {
        self.origin = Some(reference.to_owned());
        self
    }

    /// Set `sysroot.bootloader` of ostree.repo-config(5): libostree then writes that bootloader's
    /// configuration too.
    #[must_use]
    pub fn bootloader(mut self, name: &str) -> Self {
        name.clone_into(&mut self.bootloader);
        self
    }

    /// Create the sysroot. If it exists, add the stateroot and its deployment, first in boot order.
    pub fn create(&self, directory: &Path) -> anyhow::Result<()> {
        let sysroot = initialize(directory, &self.bootloader)
            .with_context(|| format!("initializing {}", directory.display()))?;
        let (commit, reference) = self.import(&sysroot.repo()).context("importing the image")?;
        sysroot.init_osname(&self.stateroot, Cancellable::NONE)?;
        self.deploy(&sysroot, &commit, &reference).with_context(|| format!("deploying commit {commit}"))?;
        sysroot.unlock();
        Ok(())
    }

    /// Import the image. Return its commit, and the reference for the deployment's origin.
    fn import(&self, repo: &ostree::Repo) -> anyhow::Result<(String, String)> {
        if let Some(reference) = &self.image {
            let image = OstreeImageReference::try_from(reference.as_str())?;
            let origin = self.origin.as_ref().unwrap_or(reference);
            let named = OstreeImageReference::try_from(origin.as_str())?;
            return Ok((block_on(import(repo, &image, &named))??, origin.clone()));
        }
        let scratch = tempfile::tempdir()?;
        let layout = scratch.path().join("image");
        write_image(&self.os, &layout, None)?;
        let source = format!("ostree-unverified-image:oci:{}", layout.display());
        let target = format!("{REPOSITORY}:{}", self.os.version());
        let source = OstreeImageReference::try_from(source.as_str())?;
        let named = OstreeImageReference::try_from(target.as_str())?;
        Ok((block_on(import(repo, &source, &named))??, target))
    }

    fn deploy(&self, sysroot: &ostree::Sysroot, commit: &str, reference: &str) -> anyhow::Result<()> {
        let origin = glib::KeyFile::new();
        origin.set_string("origin", ORIGIN_CONTAINER, reference);
        let arguments: Vec<&str> = self.kernel_arguments.iter().map(String::as_str).collect();
        let options =
            ostree::SysrootDeployTreeOpts { override_kernel_argv: Some(&arguments), ..Default::default() };
        let deployment = sysroot.deploy_tree_with_options(
            Some(&self.stateroot),
            commit,
            Some(&origin),
            None,
            Some(&options),
            Cancellable::NONE,
        )?;
        let mut order = vec![deployment];
        order.extend(sysroot.deployments());
        sysroot.write_deployments(&order, Cancellable::NONE)?;
        Ok(())
    }
}

fn initialize(directory: &Path, bootloader: &str) -> anyhow::Result<ostree::Sysroot> {
    for name in TOPLEVEL {
        fs::create_dir_all(directory.join(name))?;
    }
    let sysroot = ostree::Sysroot::new(Some(&gio::File::for_path(directory)));
    sysroot.ensure_initialized(Cancellable::NONE)?;
    sysroot.lock()?;
    sysroot.load(Cancellable::NONE)?;
    let repo = sysroot.repo();
    let config = repo.config();
    // Without a setting libostree detects the bootloader of the machine that runs this. With `none`, the
    // value on CoreOS, it writes boot entries only.
    config.set_string("sysroot", "bootloader", bootloader);
    config.set_boolean("sysroot", "readonly", true);
    repo.write_config(&config)?;
    repo.reload_config(Cancellable::NONE)?;
    Ok(sysroot)
}

async fn import(
    repo: &ostree::Repo,
    source: &OstreeImageReference,
    named: &OstreeImageReference,
) -> anyhow::Result<String> {
    let mut importer = ImageImporter::new(repo, source, ImageProxyConfig::default()).await?;
    importer.require_bootable();
    importer.set_target(named);
    let state = match importer.prepare().await? {
        PrepareResult::AlreadyPresent(state) => state,
        PrepareResult::Ready(prepared) => importer.import(prepared).await?,
    };
    Ok(state.merge_commit)
}
