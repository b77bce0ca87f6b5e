//! Power cuts that can be looked at: what the disk is when QEMU is gone from one instruction to the next.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Host, HostOrigin};
use crate::lab::Lab;
use crate::program;
use crate::snapshot;
use crate::wait::until;
use crate::writelog;

impl Host {
    /// Stops QEMU as a kill would, shows its disk image, and lets it go on. What the guest had not written by then, or
    /// QEMU not yet passed on, is not in the image: nothing is flushed for this, as the monitor's `stop` would.
    pub fn frozen<T>(&mut self, inspect: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let id = i32::try_from(self.alive()?.qemu.id())?;
        let qemu = Pid::from_raw(id).context("QEMU has a process number")?;
        kill_process(qemu, Signal::STOP).context("stopping QEMU")?;
        until("QEMU's threads to stop", Duration::from_secs(10), || Ok(is_stopped(id)?.then_some(())))?;
        let result = inspect(&self.disk);
        kill_process(qemu, Signal::CONT).context("letting QEMU go on")?;
        result
    }

    /// Lets the guest run for a while: how long decides at which of its instructions the next cut comes.
    pub fn run_for(&mut self, time: Duration) -> Result<()> {
        thread::sleep(time);
        self.alive().map(drop)
    }

    /// The disk image, which names others that it is an overlay of.
    #[must_use]
    pub fn disk(&self) -> &Path {
        &self.disk
    }
}

impl HostOrigin {
    /// Whether a host was saved under this name by this test program with this build.
    pub(crate) fn is_saved(&self) -> Result<bool> {
        match self {
            HostOrigin::Saved(name) => Ok(snapshot::folder(&Lab::locate()?, name)?.is_dir()),
            _ => Ok(true),
        }
    }

    /// Writes the disk that such a host starts with as a raw image.
    pub fn write_raw(&self, to: &Path) -> Result<()> {
        let lab = Lab::locate()?;
        let mut convert = lab.program("usr/bin/qemu-img")?;
        convert.args(["convert", "-f", "qcow2", "-O", "raw"]).arg(snapshot::base(&lab, self)?.disk).arg(to);
        program::read(&mut convert).map(drop)
    }

    /// A host that boots a state that a replay kept, on the raw disk `base` that the replay began with. The disk is
    /// written to `image`.
    pub fn of_kept_state(kept: &Path, base: &Path, image: PathBuf) -> Result<Self> {
        let raw = image.with_extension("raw");
        writelog::join(base, kept, &raw)
            .with_context(|| format!("joining the disk of {}", kept.display()))?;
        let mut convert = Lab::locate()?.program("usr/bin/qemu-img")?;
        convert.args(["convert", "-f", "raw", "-O", "qcow2"]).args([&raw, &image]);
        program::read(&mut convert)?;
        fs::remove_file(&raw)?;
        Ok(Self::Disk(image))
    }
}

/// Whether no thread of this process runs, or waits for something that it began.
fn is_stopped(id: i32) -> Result<bool> {
    for task in fs::read_dir(format!("/proc/{id}/task"))? {
        // A thread may end meanwhile.
        let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if state != Some('T') {
            return Ok(false);
        }
    }
    Ok(true)
}
