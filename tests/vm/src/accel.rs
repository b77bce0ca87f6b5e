//! Hardware virtualization where it really runs a guest, else QEMU's own emulation.
//!
//! A `/dev/kvm` that opens proves little: on nested hosts the machine is made, and hangs at its first instructions.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::lab::Lab;
use crate::program;
use crate::wait::until;

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    /// The one that the lab was built for.
    pub fn of(lab: &Lab) -> Result<Self> {
        let name = fs::read_to_string(lab.stage("accelerator")?.join("name"))?;
        match name.trim() {
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            other => bail!("the build names an unknown accelerator, {other:?}; remove it and build again"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// QEMU's arguments.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
            // With all the room that QEMU takes by itself, what it translated for one boot makes the next one a third
            // slower.
            Self::Tcg => &["-accel", "tcg,thread=multi,tb-size=100", "-cpu", "max"],
        }
    }

    /// Tries a kernel on KVM for as long as a slow machine needs to say its first line.
    pub fn probe(builder: &Path, kernel: &Path, scratch: &Path) -> Result<Self> {
        if File::options().read(true).write(true).open("/dev/kvm").is_err() {
            return Ok(Self::Tcg);
        }
        let console = scratch.join("console");
        let mut qemu = program::of_tree(builder, "usr/bin/qemu-system-x86_64");
        qemu.arg("-L").arg(builder.join("usr/share/qemu")).arg("-L").arg(builder.join("usr/share/seabios"));
        qemu.args(["-nodefaults", "-display", "none", "-machine", "q35", "-m", "512", "-no-reboot"]);
        qemu.args(Self::Kvm.arguments()).arg("-kernel").arg(kernel);
        qemu.args(["-append", "console=ttyS0 panic=-1", "-serial"])
            .arg(format!("file:{}", console.display()));
        let mut child = qemu
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting QEMU to try KVM")?;
        // The end of the boot, not its start: the instructions that hang come in between.
        let booted = until("a kernel on KVM", Duration::from_secs(20), || {
            let text = fs::read(&console).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            Ok((text.contains("Unable to mount root fs") || child.try_wait()?.is_some())
                .then(|| text.contains("Unable to mount root fs")))
        });
        // It may have ended by itself.
        let _ = child.kill();
        child.wait()?;
        Ok(if booted.unwrap_or(false) { Self::Kvm } else { Self::Tcg })
    }
}
