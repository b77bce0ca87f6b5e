//! Power cuts: the disk as it is when QEMU stops between two instructions.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Host, HostOrigin};
use crate::lab::Lab;
use crate::wait::until;
use crate::{program, snapshot, writelog};

impl Host {
    /// Stop QEMU's threads, call `inspect` on the disk image, and let QEMU continue. The image is as a kill
    /// of QEMU would leave it: it lacks the data that the guest has not written, and the data that QEMU has
    /// not passed on. (The monitor's `stop` would flush.)
    pub fn frozen<T>(&mut self, inspect: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let id = i32::try_from(self.alive()?.qemu.id())?;
        let qemu = Pid::from_raw(id).context("QEMU has a process number")?;
        kill_process(qemu, Signal::STOP).context("stopping QEMU")?;
        until("QEMU's threads to stop", Duration::from_secs(10), || Ok(is_stopped(id)?.then_some(())))?;
        let result = inspect(&self.disk);
        kill_process(qemu, Signal::CONT).context("letting QEMU go on")?;
        result
    }

    /// Let the guest run for this time, which determines the instruction at which the next cut comes.
    pub fn run_for(&mut self, time: Duration) -> Result<()> {
        thread::sleep(time);
        self.alive().map(drop)
    }

    /// Return the path of the disk image, an overlay that names its base image.
    #[must_use]
    pub fn disk(&self) -> &Path {
        &self.disk
    }
}

impl HostOrigin {
    /// Return true if this test program has saved the host with this build; always true for other origins.
    pub(crate) fn is_saved(&self) -> Result<bool> {
        match self {
            HostOrigin::Saved(name) => Ok(snapshot::folder(&Lab::locate()?, name)?.is_dir()),
            _ => Ok(true),
        }
    }

    /// Write the disk that a host of this origin starts with, as a raw image.
    pub fn write_raw(&self, to: &Path) -> Result<()> {
        let lab = Lab::locate()?;
        let mut convert = lab.program("usr/bin/qemu-img")?;
        convert.args(["convert", "-f", "qcow2", "-O", "raw"]).arg(snapshot::base(&lab, self)?.disk).arg(to);
        program::read(&mut convert).map(drop)
    }

    /// Return the origin of a host that boots a state kept by a replay. `base` is the raw disk that the
    /// replay began with; the disk is written to `image`.
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

/// Return true if each thread of the process is stopped, so that none is in a system call.
fn is_stopped(id: i32) -> Result<bool> {
    for task in fs::read_dir(format!("/proc/{id}/task"))? {
        // A thread may have ended since the listing.
        let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if state != Some('T') {
            return Ok(false);
        }
    }
    Ok(true)
}
