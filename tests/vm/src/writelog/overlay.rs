//! Inspection of a running host's disk image, without a copy of it.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::boot::BootedSystem;
use super::disk::{Disk, Layout};
use super::inspect::{Defect, inspect};
use super::replay::Side;
use crate::lab::Lab;
use crate::program;

/// The base disk of a host, updated to the overlays that are inspected.
#[derive(Debug)]
pub struct OverlayDisk {
    lab: Lab,
    disk: Disk,
}

/// Range of the disk, as `qemu-img map` prints it. `depth` is 0 if the overlay itself has the data.
#[derive(Debug, Deserialize)]
struct Extent {
    start: u64,
    length: u64,
    depth: u32,
    zero: bool,
    /// Offset of the data in the image file, if there is data.
    offset: Option<u64>,
}

impl OverlayDisk {
    /// Create a disk from the raw disk `base`. `directory` gets its partitions, and should be in memory.
    pub fn new(lab: Lab, base: &Path, directory: &Path) -> Result<Self> {
        let disk = Disk::extract(base, Layout::of_mbr(base)?, directory)?;
        Ok(Self { lab, disk })
    }

    /// Ask `judge` about the system that the overlay `image` boots. No host may write to it meanwhile.
    /// Several images of one host may be inspected in the order of their time, since overlays only grow. The
    /// inner error is a defect of the disk.
    pub fn inspect(
        &mut self,
        image: &Path,
        is_audited: bool,
        judge: &mut dyn FnMut(&BootedSystem) -> Result<Side>,
    ) -> Result<Result<Side, Defect>> {
        let mut map = self.lab.program("usr/bin/qemu-img")?;
        map.args(["map", "--force-share", "--output=json", "-f", "qcow2"]).arg(image);
        let extents: Vec<Extent> = serde_json::from_str(&program::read(&mut map)?)?;
        let file = File::open(image).with_context(|| format!("reading {}", image.display()))?;
        for extent in extents.iter().filter(|extent| extent.depth == 0) {
            match extent.offset {
                Some(offset) if !extent.zero => {
                    self.disk.copy_from(&file, offset, extent.start, extent.length)?;
                }
                _ => self.disk.clear(extent.start, extent.length)?,
            }
        }
        inspect(&self.disk, is_audited, judge)
    }
}
