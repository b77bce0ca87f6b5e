//! Choice between KVM and QEMU's own emulation (TCG).
//!
//! A `/dev/kvm` that opens proves little: on some nested hosts KVM creates a virtual machine that hangs at
//! its first instructions. The build therefore boots a kernel once before it relies on KVM.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::lab::Lab;
use crate::program;
use crate::wait::until;

/// QEMU accelerator that executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    /// Return the accelerator that the build has chosen.
    pub fn of(lab: &Lab) -> Result<Self> {
        let name = fs::read_to_string(lab.stage("accelerator")?.join("name"))?;
        match name.trim() {
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            other => bail!(
                "unknown accelerator {other:?} in the build; remove target/vm and run: cargo xtask vm build"
            ),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
            // With the default size of its translation buffer (`tb-size`), code that QEMU translated for one
            // boot makes the next boot a third slower.
            Self::Tcg => &["-accel", "tcg,thread=multi,tb-size=100", "-cpu", "max"],
        }
    }

    /// Boot a kernel on KVM, and fall back to TCG if it does not reach the mount of its root in 20 seconds.
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
            .context("starting QEMU for the KVM check")?;
        // Wait for the end of the kernel's boot: nested KVM hangs before that.
        let booted = until("the test kernel on KVM", Duration::from_secs(20), || {
            let text = fs::read(&console).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            Ok((text.contains("Unable to mount root fs") || child.try_wait()?.is_some())
                .then(|| text.contains("Unable to mount root fs")))
        });
        // The process may have ended by itself.
        let _ = child.kill();
        child.wait()?;
        Ok(if booted.unwrap_or(false) { Self::Kvm } else { Self::Tcg })
    }
}
