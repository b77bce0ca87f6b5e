//! The disk of a host as its image file stands at this moment, judged without a copy of it.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::lab::Lab;
use crate::program;

use super::boot::BootedSystem;
use super::disk::{Disk, Layout};
use super::inspect::{Defect, inspect};
use super::replay::Side;

/// A disk, and what a host has written over it since.
#[derive(Debug)]
pub struct OverlayDisk {
    lab: Lab,
    disk: Disk,
}

/// A range of the disk, and which image file of the chain has it.
#[derive(Debug, Deserialize)]
struct Extent {
    start: u64,
    length: u64,
    depth: u32,
    zero: bool,
    /// Where its content begins in that file; none where it has none.
    offset: Option<u64>,
}

impl OverlayDisk {
    /// Over the raw disk `base`; `directory` has room for its partitions, in memory best.
    pub fn new(lab: Lab, base: &Path, directory: &Path) -> Result<Self> {
        let disk = Disk::extract(base, Layout::of_mbr(base)?, directory)?;
        Ok(Self { lab, disk })
    }

    /// Asks `judge` what the disk boots that `image` is, an overlay of the base, which no host writes to meanwhile.
    /// Overlays only grow: of one host, one image may follow the other. The inner error is the state's.
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
