//! One update and its rollback, for somebody who sees Flameholder for the first time.
//!
//! Everything happens in a temporary directory, with the release executables, in a small
//! sysroot that is generated there. The demo doubles as a smoke test: besides every exit code it
//! checks which system the boot menu starts.

mod stage;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::boot_entry::BootEntry;
use crate::workspace::Workspace;
use stage::Stage;

const CONFIG: &str = "tests/fixtures/demo/worker.yaml";
/// A config that a cluster's controller rendered, played where it lies beside the checkout.
const RENDERED: &str = "../shared/rendered/03-kernel-args.json";
/// Names within the stage's directory, short because they are shown.
const SYSROOT: &str = "sysroot";
const DESIRED: &str = "worker.config";
const NEW_OS: &str = "oci:os-2";

/// Plays the demo; needs the release build and root.
///
/// # Errors
/// A step fails, or the boot menu is not what the step says.
pub fn show(workspace: &Workspace, keep: bool, config: Option<&Path>) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the demo writes an OSTree sysroot, whose files belong to root: run it as root"
    );
    let [rendered, own] = [RENDERED, CONFIG].map(|file| workspace.root().join(file));
    let config = config.unwrap_or(if rendered.is_file() { &rendered } else { &own });
    let stage = Stage::set(workspace)?;
    std::fs::copy(config, stage.path(DESIRED)).with_context(|| format!("copying {}", config.display()))?;
    let played = play(&stage);
    let struck = stage.strike(keep);
    played.and(struck)
}

fn play(stage: &Stage<'_>) -> Result<()> {
    println!();
    prepare(stage)?;
    let before = stage.boots_next()?;
    update(stage, &before)?;
    roll_back(stage, &before)
}

fn prepare(stage: &Stage<'_>) -> Result<()> {
    stage.heading(
        "A host, and an update for it",
        "A sysroot with version 1 of a small OS, not running, as an installer would leave it.\n\
         Version 2 comes as a container image.",
    );
    stage.run("osimage", &["sysroot", SYSROOT, "--version", "1"])?;
    stage.run("osimage", &["image", "--version", "2", "--output", NEW_OS])
}

fn update(stage: &Stage<'_>, before: &BootEntry) -> Result<()> {
    let image = format!("ostree-unverified-image:{NEW_OS}");
    let desired = ["--sysroot", SYSROOT, "--desired", DESIRED, "--os-image", &image];
    stage.heading("Plan", "What would change, and what that would disturb. Nothing is written.");
    stage.flameholder("plan", &desired)?;
    ensure!(stage.boots_next()? == *before, "the plan has changed the boot menu");

    stage.heading(
        "Apply",
        "OS, kernel arguments, files and units go into one new deployment. The last act writes\n\
         the boot menu: before it nothing boots differently.",
    );
    stage.flameholder("apply", &desired)?;

    stage.heading("Status", "Two deployments now; the new one boots next.");
    stage.flameholder("status", &["--sysroot", SYSROOT])?;

    stage.heading(
        "The boot menu",
        "The first entry boots. Its options are the new kernel arguments and the generation's name.",
    );
    stage.print_boot_menu()?;
    let after = stage.boots_next()?;
    ensure!(after.kernel() != before.kernel(), "the boot menu still starts the kernel of version 1");

    stage.heading("Verify", "The new deployment against its record: no deviation.");
    stage.flameholder("verify", &["--sysroot", SYSROOT])
}

fn roll_back(stage: &Stage<'_>, before: &BootEntry) -> Result<()> {
    stage.heading(
        "Roll back",
        "The old deployment is complete, configuration included: the boot menu changes its order.",
    );
    stage.flameholder("rollback", &["--sysroot", SYSROOT])?;
    stage.flameholder("status", &["--sysroot", SYSROOT])?;
    ensure!(
        stage.boots_next()?.kernel() == before.kernel(),
        "the boot menu does not start the kernel of version 1"
    );
    stage.heading("Done", "Version 1 boots next, with the configuration that it had.");
    Ok(())
}
