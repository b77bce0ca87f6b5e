//! The two partitions of a disk as files, to which logged requests are applied in place.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FallocateFlags, SeekFrom};

use super::log::{Entry, Kind, WriteLog};

const SECTOR: u64 = 512;
/// Granularity of sparse copies: a piece that is all zero becomes a hole.
const PIECE: usize = 64 << 10;
/// File names of the partitions.
const BOOT: &str = "boot.raw";
const ROOT: &str = "root.raw";

/// Location of the file systems on the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// First byte and length of the file system mounted on `/boot`.
    pub boot: (u64, u64),
    /// First byte and length of the file system with the deployments and `/var`.
    pub root: (u64, u64),
}

impl Layout {
    /// Read the first two partitions from a master boot record.
    ///
    /// # Errors
    /// The disk cannot be read, or has fewer than two partitions.
    pub fn of_mbr(disk: &Path) -> Result<Self> {
        let mut record = [0; 512];
        let file = File::open(disk).with_context(|| format!("reading the disk {}", disk.display()))?;
        file.read_exact_at(&mut record, 0)?;
        let partition = |at: usize| -> Result<(u64, u64)> {
            let [start, length] = [8, 12].map(|field| {
                let bytes = record.iter().skip(446 + 16 * at + field).take(4);
                bytes.rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)) * SECTOR
            });
            ensure!(start > 0 && length > 0, "{} has no partition {}", disk.display(), at + 1);
            Ok((start, length))
        };
        Ok(Self { boot: partition(0)?, root: partition(1)? })
    }
}

/// A partition in a file of its own.
#[derive(Debug)]
pub struct Image {
    pub path: PathBuf,
    file: File,
    start: u64,
    length: u64,
}

/// Pre-image of a request: the content of the range that it writes to.
#[derive(Debug)]
pub struct PreImage(Vec<(Part, u64, Vec<u8>)>);

#[derive(Debug, Clone, Copy)]
enum Part {
    Boot,
    Root,
}

/// Both partitions. Requests for other parts of the disk are ignored.
#[derive(Debug)]
pub struct Disk {
    pub boot: Image,
    pub root: Image,
}

impl Disk {
    /// Copy the partitions of a raw disk into `directory`.
    pub fn extract(disk: &Path, layout: Layout, directory: &Path) -> Result<Self> {
        let from = File::open(disk).with_context(|| format!("reading the disk {}", disk.display()))?;
        let image = |name: &str, (start, length): (u64, u64)| -> Result<Image> {
            let path = directory.join(name);
            let file = File::options().create(true).truncate(true).read(true).write(true).open(&path)?;
            file.set_len(length)?;
            let image = Image { path, file, start, length };
            copy_sparsely(&from, start, (&image.file, 0), length)
                .with_context(|| format!("copying {name} out of {}", disk.display()))?;
            Ok(image)
        };
        Ok(Self { boot: image(BOOT, layout.boot)?, root: image(ROOT, layout.root)? })
    }

    /// Apply a logged request.
    pub fn apply(&self, log: &WriteLog, entry: &Entry) -> Result<()> {
        for image in [&self.boot, &self.root] {
            let Some((at, skipped, length)) = image.overlap(entry.start, entry.length) else { continue };
            match entry.kind {
                Kind::Nothing => {}
                Kind::Write => {
                    let content = log.content(entry)?;
                    let behind = content.split_at_checked(usize::try_from(skipped)?);
                    let inside = behind.and_then(|(_, rest)| rest.get(..usize::try_from(length).ok()?));
                    let content = inside.context("the content of a request is shorter than its length")?;
                    image.file.write_all_at(content, at)?;
                }
                Kind::Discard => punch(&image.file, at, length)?,
            }
        }
        Ok(())
    }

    /// Copy `length` bytes from `offset` in a file to `start` on the disk.
    pub fn copy_from(&self, file: &File, offset: u64, start: u64, length: u64) -> Result<()> {
        for image in [&self.boot, &self.root] {
            let Some((at, skipped, length)) = image.overlap(start, length) else { continue };
            let mut done = 0;
            let mut piece = vec![0; PIECE];
            while done < length {
                let size = usize::try_from(length - done)?.min(PIECE);
                let piece = piece.split_at_mut(size).0;
                file.read_exact_at(piece, offset + skipped + done)?;
                image.file.write_all_at(piece, at + done)?;
                done += u64::try_from(size)?;
            }
        }
        Ok(())
    }

    /// Zero a range of the disk.
    pub fn clear(&self, start: u64, length: u64) -> Result<()> {
        for image in [&self.boot, &self.root] {
            if let Some((at, _, length)) = image.overlap(start, length) {
                punch(&image.file, at, length)?;
            }
        }
        Ok(())
    }

    /// Return the current content of the range that the request writes to.
    pub fn pre_image(&self, entry: &Entry) -> Result<PreImage> {
        let mut content_before = Vec::new();
        for (part, image) in [(Part::Boot, &self.boot), (Part::Root, &self.root)] {
            let Some((at, _, length)) = image.overlap(entry.start, entry.length) else { continue };
            let mut content = vec![0; usize::try_from(length)?];
            image.file.read_exact_at(&mut content, at)?;
            content_before.push((part, at, content));
        }
        Ok(PreImage(content_before))
    }

    /// Restore the content from before a request.
    pub fn restore(&self, pre_image: &PreImage) -> Result<()> {
        for (part, at, content) in &pre_image.0 {
            let image = match part {
                Part::Boot => &self.boot,
                Part::Root => &self.root,
            };
            image.file.write_all_at(content, *at)?;
        }
        Ok(())
    }

    /// Copy both partitions into a new directory.
    pub fn keep(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        for image in [&self.boot, &self.root] {
            let name = image.path.file_name().context("the partition file has no name")?;
            let file = File::create(directory.join(name))?;
            file.set_len(image.length)?;
            copy_sparsely(&image.file, 0, (&file, 0), image.length)?;
        }
        Ok(())
    }
}

/// Join the partitions that a replay kept in `directory` to a raw disk; the sectors before them come from
/// `base`.
///
/// # Errors
/// A file cannot be read or written.
pub fn join(base: &Path, directory: &Path, disk: &Path) -> Result<()> {
    let layout = Layout::of_mbr(base)?;
    let base = File::open(base)?;
    let to = File::options().create(true).truncate(true).read(true).write(true).open(disk)?;
    to.set_len(base.metadata()?.len())?;
    copy_sparsely(&base, 0, (&to, 0), layout.boot.0)?;
    for (name, (start, length)) in [(BOOT, layout.boot), (ROOT, layout.root)] {
        copy_sparsely(&File::open(directory.join(name))?, 0, (&to, start), length)?;
    }
    Ok(())
}

impl Image {
    /// Intersect a range of the disk with this partition. Return the offset in the partition, the length of
    /// the part of the range before it, and the length of the intersection.
    fn overlap(&self, start: u64, length: u64) -> Option<(u64, u64, u64)> {
        let from = start.max(self.start);
        let to = (start + length).min(self.start + self.length);
        (from < to).then(|| (from - self.start, from - start, to - from))
    }
}

fn punch(file: &File, at: u64, length: u64) -> Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, hole, at, length)?)
}

/// Copy data, and skip holes and zeros. The target range has to be a hole.
fn copy_sparsely(from: &File, start: u64, (to, target): (&File, u64), length: u64) -> Result<()> {
    let end = start + length;
    let mut at = start;
    let mut piece = vec![0; PIECE];
    while at < end {
        match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(found) => at = found,
            // The rest of the file is a hole.
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let hole = rustix::fs::seek(from, SeekFrom::Hole(at))?.min(end);
        while at < hole {
            let length = usize::try_from(hole - at)?.min(PIECE);
            let piece = piece.split_at_mut(length).0;
            from.read_exact_at(piece, at)?;
            if piece.iter().any(|byte| *byte != 0) {
                to.write_all_at(piece, target + at - start)?;
            }
            at += u64::try_from(length)?;
        }
    }
    Ok(())
}
