//! Metadata that ostree-prepare-root leaves about the booted deployment: a dictionary, type `a{sv}`, in the format
//! `GVariant`.
//!
//! One entry is read, so its format is read here: glib is not linked, and zvariant gives its own up. Each container of
//! elements with variable sizes ends with the offsets of their ends, in the fewest bytes that can count the container.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Metadata of the deployment that the initramfs booted, or that was booted by a soft reboot which
/// `ostree-boot-complete.service` has completed.
const BOOTED: &str = "run/ostree-booted";
/// Metadata of the deployment in [`NEXT_ROOT`]: before a soft reboot, and after it until it is completed.
const NEXT_BOOTED: &str = "run/ostree/nextroot-booted";
/// Mount point of the root directory that a soft reboot will switch to. systemd moves the mount away as it does.
const NEXT_ROOT: &str = "run/nextroot";
/// Device and inode of the deployment's directory, which a composefs mount hides.
const BACKING_DIRECTORY: &str = "backing-root-device-inode";

/// Alignment of the entries and of their variants.
const ALIGNMENT: usize = 8;

/// Device and inode numbers of a directory.
pub(super) type DirectoryIdentity = (u64, u64);

/// Return the directory of the booted deployment by its metadata below `root`, which is `/` on a host; `None` where
/// libostree is too old to write it (before 2024.2), or it cannot be read.
pub(super) fn backing_directory(root: &Path, soft_reboots: u32) -> Option<DirectoryIdentity> {
    let read = |path: &str| parse(&std::fs::read(root.join(path)).ok()?);
    let switched = if soft_reboots > 0 && !is_mounted(root) { read(NEXT_BOOTED) } else { None };
    switched.or_else(|| read(BOOTED))
}

/// Return true if a root directory is prepared for the next soft reboot.
fn is_mounted(root: &Path) -> bool {
    let path = root.join(NEXT_ROOT);
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    device(&path).is_some_and(|next| path.parent().and_then(device) != Some(next))
}

fn parse(metadata: &[u8]) -> Option<DirectoryIdentity> {
    let value = entries(metadata)?.into_iter().find_map(|entry| value_of(entry, BACKING_DIRECTORY))?;
    // A variant: the value, a zero byte, and its type.
    let numbers = value.strip_suffix(b"\0(tt)")?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    let (device, inode) = numbers.split_at_checked(size_of::<u64>())?;
    Some((number(device)?, number(inode)?))
}

/// Split a dictionary into its entries, each of which is aligned.
fn entries(dictionary: &[u8]) -> Option<Vec<&[u8]>> {
    let width = offset_width(dictionary.len());
    // The last entry ends where the ends begin.
    let ends = dictionary.get(last_offset(dictionary)?..)?;
    let mut start = 0_usize;
    ends.chunks_exact(width)
        .map(|end| {
            let entry = dictionary.get(start.next_multiple_of(ALIGNMENT)..offset(end)?)?;
            start = offset(end)?;
            Some(entry)
        })
        .collect()
}

/// Return the value of an entry, which is a string and an aligned variant, if it has this key.
fn value_of<'a>(entry: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let end = last_offset(entry)?;
    let is_it = entry.get(..end)?.strip_suffix(b"\0")? == key.as_bytes();
    let values = end.next_multiple_of(ALIGNMENT)..entry.len().checked_sub(offset_width(entry.len()))?;
    entry.get(values).filter(|_| is_it)
}

fn last_offset(container: &[u8]) -> Option<usize> {
    let at = container.len().checked_sub(offset_width(container.len()))?;
    offset(container.get(at..)?).filter(|offset| *offset <= at)
}

/// Return the number of bytes of each offset in a container of this size.
fn offset_width(size: usize) -> usize {
    match size {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Parse an offset, little-endian everywhere.
fn offset(bytes: &[u8]) -> Option<usize> {
    bytes
        .iter()
        .rev()
        .try_fold(0_usize, |number, byte| number.checked_mul(0x100)?.checked_add(usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Metadata as glib writes it, with a low byte of the inode number of its own.
    fn metadata(inode: u8) -> Vec<u8> {
        let mut written = WRITTEN.to_vec();
        written[40] = inode;
        written
    }

    /// Written by `g_variant_builder_add`, with the keys of ostree-prepare-root in their order.
    const WRITTEN: &[u8] = include_bytes!("booted_metadata/ostree-booted");

    #[test]
    fn directory_is_read_from_what_glib_writes() {
        assert_eq!(parse(WRITTEN), Some((0xfd04, 8_389_760)));
        // More than 255 bytes take wider offsets.
        assert_eq!(parse(include_bytes!("booted_metadata/ostree-booted-long")), Some((0xfd04, 8_389_760)));
        // Any cut or flipped byte is survived.
        for at in 0..WRITTEN.len() {
            assert_eq!(parse(&WRITTEN[..at]), None, "{at} bytes");
            let mut damaged = WRITTEN.to_vec();
            damaged[at] ^= 0xff;
            let _ = parse(&damaged);
        }
    }

    #[test]
    fn metadata_of_the_next_root_counts_once_a_soft_reboot_switched_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("run/ostree")).unwrap();
        let found = |soft_reboots| backing_directory(root, soft_reboots).map(|(_, inode)| inode & 0xff);
        assert_eq!((found(0), found(1)), (None, None));
        fs::write(root.join(BOOTED), metadata(1)).unwrap();
        assert_eq!((found(0), found(1)), (Some(1), Some(1)));
        fs::write(root.join(NEXT_BOOTED), metadata(2)).unwrap();
        assert_eq!((found(0), found(1)), (Some(1), Some(2)), "{NEXT_ROOT} is no mount point any more");
        fs::create_dir(root.join(NEXT_ROOT)).unwrap();
        assert_eq!((found(0), found(1)), (Some(1), Some(2)));
        // Format of a libostree before 2024.2.
        fs::remove_file(root.join(NEXT_BOOTED)).unwrap();
        fs::write(root.join(BOOTED), "").unwrap();
        assert_eq!(found(1), None);
    }
}
