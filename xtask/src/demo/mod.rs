//! `cargo xtask demo`: one update and its rollback, as an introduction to Flameholder.
//!
//! The release executables run on a small sysroot that is generated in a temporary directory. The demo is a
//! smoke test as well: it checks each exit code and the default boot entry.

mod stage;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use stage::DemoStage;

use crate::boot_entry::BootEntry;
use crate::project_tree::ProjectTree;

const CONFIG: &str = "tests/fixtures/demo/worker.yaml";
/// Config that a cluster's controller rendered, used if it exists beside the checkout.
const RENDERED: &str = "../shared/rendered/03-kernel-args.json";
/// Names within the demo's directory, short because they are printed.
const SYSROOT: &str = "sysroot";
const DESIRED: &str = "worker.config";
const NEW_OS: &str = "oci:os-2";

/// Run the demo; needs root and the release build.
///
/// # Errors
/// A step fails, or the boot entries differ from the expected ones.
pub fn show(workspace: &ProjectTree, keep: bool, config: Option<&Path>) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the demo writes an OSTree sysroot, whose files belong to root: run it as root"
    );
    let [rendered, own] = [RENDERED, CONFIG].map(|file| workspace.root().join(file));
    let config = config.unwrap_or(if rendered.is_file() { &rendered } else { &own });
    let stage = DemoStage::create(workspace)?;
    std::fs::copy(config, stage.path(DESIRED)).with_context(|| format!("copying {}", config.display()))?;
    let played = play(&stage);
    let removed = stage.remove(keep);
    played.and(removed)
}

fn play(stage: &DemoStage<'_>) -> Result<()> {
    println!();
    prepare(stage)?;
    let before = stage.boots_next()?;
    update(stage, &before)?;
    roll_back(stage, &before)
}

fn prepare(stage: &DemoStage<'_>) -> Result<()> {
    stage.heading(
        "A host and an update for it",
        "A sysroot with version 1 of a small OS, not booted, as an installer leaves it.\n\
         Version 2 is a container image.",
    );
    stage.run("osimage", &["sysroot", SYSROOT, "--version", "1"])?;
    stage.run("osimage", &["image", "--version", "2", "--output", NEW_OS])
}

fn update(stage: &DemoStage<'_>, before: &BootEntry) -> Result<()> {
    let image = format!("ostree-unverified-image:{NEW_OS}");
    let desired = ["--sysroot", SYSROOT, "--desired", DESIRED, "--os-image", &image];
    stage.heading("Plan", "The changes and their disruption. Nothing is written.");
    stage.flameholder("plan", &desired)?;
    ensure!(stage.boots_next()? == *before, "`flameholder plan` changed the boot menu");

    stage.heading(
        "Apply",
        "OS, kernel arguments, files and units go into one new deployment. The boot entries are\n\
         written last: until then the next boot is unchanged.",
    );
    stage.flameholder("apply", &desired)?;

    stage.heading("Status", "Two deployments; the new one boots next.");
    stage.flameholder("status", &["--sysroot", SYSROOT])?;

    stage.heading(
        "The boot menu",
        "The first entry is the default. Its options are the new kernel arguments and the generation.",
    );
    stage.print_boot_menu()?;
    let after = stage.boots_next()?;
    ensure!(after.kernel() != before.kernel(), "the default boot entry still has the kernel of version 1");

    stage.heading("Verify", "The new deployment compared with its record: no drift.");
    stage.flameholder("verify", &["--sysroot", SYSROOT])
}

fn roll_back(stage: &DemoStage<'_>, before: &BootEntry) -> Result<()> {
    stage.heading(
        "Roll back",
        "The old deployment is complete, with its configuration: only the boot entries change their order.",
    );
    stage.flameholder("rollback", &["--sysroot", SYSROOT])?;
    stage.flameholder("status", &["--sysroot", SYSROOT])?;
    ensure!(
        stage.boots_next()?.kernel() == before.kernel(),
        "the default boot entry does not have the kernel of version 1"
    );
    stage.heading("Done", "Version 1 boots next, with its configuration.");
    Ok(())
}
