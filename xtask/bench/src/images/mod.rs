//! OS images of many layers, and hosts that are updated from one to the next.

mod layered_tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use layered_tree::LayeredTree;
use osimage::{ImageRegistry, LinkSpeed, RegistryAnswers, SysrootBuilder};
use serde_json::json;
use tempfile::TempDir;

use crate::BenchRun;
use crate::turns::PairSide;

/// Setting of the worker: number of layers that are fetched at a time.
const PARALLEL: &str = "FLAMEHOLDER_PARALLEL_FETCHES";

/// Registry with an image, and a host that runs the one before it.
#[derive(Debug)]
pub struct ImageUpdate<'b> {
    bench: &'b BenchRun,
    directory: TempDir,
    registry: ImageRegistry,
    digest: String,
}

impl<'b> ImageUpdate<'b> {
    /// Create the images, the host and the registry, whose connections have this speed.
    ///
    /// # Errors
    /// An image or the host cannot be written.
    pub fn prepare(bench: &'b BenchRun, speed: Option<LinkSpeed>) -> Result<Self> {
        let directory = bench.directory()?;
        let at = |name: &str| directory.path().join(name);
        LayeredTree { version: 1 }.write_image(&at("first"))?;
        let digest = LayeredTree { version: 2 }.write_image(&at("second"))?;
        let installed = format!("ostree-unverified-image:oci:{}", at("first").display());
        let os = LayeredTree { version: 1 }.os();
        SysrootBuilder::new(os).image(&installed).create(&at("installed")).context("creating a host")?;
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": "rendered-bench"},
            "spec": {"config": {"ignition": {"version": "3.4.0"}}},
        });
        std::fs::write(at("config.json"), config.to_string()).context("writing a config")?;
        let answers = match speed {
            Some(speed) => RegistryAnswers::Distant(at("second"), speed),
            None => RegistryAnswers::Layout(at("second")),
        };
        let registry = ImageRegistry::start(answers).context("starting a registry")?;
        registry.write_home(&at("home")).context("writing registries.conf")?;
        Ok(Self { bench, directory, registry, digest })
    }

    /// Return the command that updates a new copy of the host.
    ///
    /// # Errors
    /// The host cannot be copied.
    pub fn update(&self, side: PairSide) -> Result<Command> {
        let host = self.path("host");
        osimage::remove(&host).context("removing the host of the previous turn")?;
        // Hard links into the repository are kept.
        let copied = Command::new("cp").arg("-a").arg(self.path("installed")).arg(&host).status();
        ensure!(copied.context("starting cp")?.success(), "cannot copy the host");
        let directory = std::fs::File::open(self.directory.path()).context("opening the directory")?;
        rustix::fs::syncfs(directory).context("flushing the file system")?;
        let image = format!("ostree-unverified-registry:{}/os@{}", self.registry.address(), self.digest);
        let mut command = self.bench.executable("flameholder");
        command.arg("apply").arg("--sysroot").arg(&host);
        command.arg("--desired").arg(self.path("config.json")).args(["--os-image", &image]);
        command.env("HOME", self.path("home"));
        if side == PairSide::Baseline {
            command.env(PARALLEL, "1");
        }
        Ok(command)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for ImageUpdate<'_> {
    fn drop(&mut self) {
        // Deployments are immutable: the directory alone cannot remove them.
        for host in ["host", "installed"].map(|name| self.path(name)) {
            if let Err(error) = osimage::remove(Path::new(&host)) {
                eprintln!("  cannot remove {}: {error:#}", host.display());
            }
        }
    }
}
