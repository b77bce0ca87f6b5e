//! An interactive host on this terminal (`cargo xtask vm run`).

use anyhow::{Context as _, Result, ensure};

use crate::lab::Lab;
use crate::machine::{Console, Forward, Machine};
use crate::registry::{self, Registry};
use crate::snapshot::Base;

/// Boot from `base`, and return when QEMU ends. The registry runs meanwhile.
pub fn run(lab: &Lab, base: &Base, forwards: &[Forward]) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("host-").tempdir_in(lab.folder("run")?)?;
    let sockets = tempfile::Builder::new().prefix("vm-").tempdir()?;
    let disk = folder.path().join("disk.qcow2");
    lab.overlay(&base.disk, &disk)?;
    let builder = lab.stage("builder")?.join("tree");
    let storage = lab.os_stage("images")?.join("registry");
    let mut registry = Registry::new(&builder, &storage, folder.path(), registry::free_port()?);
    registry.start()?;
    println!("Log in as root; there is no password. Images in the registry:");
    for version in 1..=3 {
        println!("  {}", lab.image(version)?);
    }
    println!("To leave: `poweroff` in the guest, or Ctrl-A X at any time. The disk is deleted.\n");
    let machine = Machine {
        lab,
        disk: &disk,
        sockets: sockets.path(),
        registry_port: registry.port(),
        forwards,
        console: Console::Terminal,
        incoming: None,
        ignition: None,
        write_log: None,
        data_disk: None,
    };
    let status = machine.start()?.wait().context("waiting for QEMU")?;
    ensure!(status.success(), "QEMU failed with {status}");
    Ok(())
}
