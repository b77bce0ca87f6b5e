//! Room for a deployment to be finalized: found out while nothing is disturbed yet.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::TransactionError;

/// Where kernels are copied to.
const BOOT: &str = "/boot";
/// Where a deployment keeps them.
const MODULES: &str = "usr/lib/modules";
/// What a kernel's directory holds that is copied.
const COPIED: [&str; 2] = ["vmlinuz", "initramfs.img"];
/// Boot entries, new directories, and what a file system keeps for itself.
const SLACK: u64 = 8 << 20;

/// Why there is not enough.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} needs {} MiB on {}, which has {} MiB free; remove old deployments (`ostree admin undeploy`, `rpm-ostree cleanup -r`), or enlarge it",
    mebibytes(*needed),
    place.display(),
    mebibytes(*free)
)]
pub struct NoRoom {
    what: &'static str,
    place: PathBuf,
    needed: u64,
    free: u64,
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Fails where the deployment at `directory` cannot be finalized for want of space: its kernel on
/// `/boot`, unless that is there already, and its `/etc` beside it.
pub(super) fn ensure_room(directory: &Path) -> Result<(), TransactionError> {
    let kernel = kernel_bytes(directory).unwrap_or(0);
    ensure("the kernel of the new deployment", Path::new(BOOT), kernel)?;
    let etc = tree_bytes(Path::new("/etc")).unwrap_or(0);
    ensure("the /etc of the new deployment", directory, etc)
}

fn ensure(what: &'static str, place: &Path, needed: u64) -> Result<(), TransactionError> {
    // What cannot be asked is found out by whoever writes.
    let Ok(stat) = statvfs(place) else { return Ok(()) };
    let (free, needed) = (stat.f_bavail.saturating_mul(stat.f_frsize), needed + SLACK);
    if free >= needed {
        return Ok(());
    }
    Err(NoRoom { what, place: place.to_owned(), needed, free }.into())
}

/// What would be copied to `/boot`; nothing where the same files are there. libostree tells kernels
/// apart by a checksum of theirs; equal sizes of both are told apart by content here.
fn kernel_bytes(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for version in directory.join(MODULES).read_dir()? {
        let version = version?.path();
        for name in COPIED {
            bytes += version.join(name).metadata().map_or(0, |found| found.len());
        }
    }
    let running = running_kernel_bytes().unwrap_or(0);
    Ok(if bytes == running && is_running_kernel(directory) { 0 } else { bytes })
}

fn running_kernel_bytes() -> std::io::Result<u64> {
    let mut bytes = 0;
    for version in Path::new("/").join(MODULES).read_dir()? {
        let version = version?.path();
        for name in COPIED {
            bytes += version.join(name).metadata().map_or(0, |found| found.len());
        }
    }
    Ok(bytes)
}

/// Deployments share the files that are equal: the same inode is the same content.
fn is_running_kernel(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(versions) = directory.join(MODULES).read_dir() else { return false };
    versions.flatten().all(|version| {
        COPIED.iter().all(|name| {
            let here = version.path().join(name);
            let running = Path::new("/").join(MODULES).join(version.file_name()).join(name);
            match (here.metadata(), running.metadata()) {
                (Ok(here), Ok(running)) => here.ino() == running.ino(),
                (Err(_), Err(_)) => true,
                _ => false,
            }
        })
    })
}

fn tree_bytes(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in directory.read_dir()? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += 4096;
        bytes += if found.is_dir() { tree_bytes(&entry.path())? } else { found.len() };
    }
    Ok(bytes)
}
