//! Room for a deployment to be finalized: found out while nothing is disturbed yet.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use crate::transaction::TransactionError;

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
pub struct SpaceError {
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
pub(crate) fn ensure_space(directory: &Path) -> Result<(), TransactionError> {
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
    Err(SpaceError { what, place: place.to_owned(), needed, free }.into())
}

/// What would be copied to `/boot`; nothing where the kernel that runs is there already. Deployments share
/// the files that are equal: the same inode is the same content.
fn kernel_bytes(directory: &Path) -> std::io::Result<u64> {
    let files = kernel_files(directory)?;
    let is_there = kernel_files(Path::new("/")).is_ok_and(|running| running == files);
    Ok(if is_there { 0 } else { files.values().map(|(_, bytes)| bytes).sum() })
}

/// Inode and size of the files that are copied.
fn kernel_files(root: &Path) -> std::io::Result<BTreeMap<PathBuf, (u64, u64)>> {
    let mut files = BTreeMap::new();
    for version in root.join(MODULES).read_dir()? {
        let version = version?;
        for name in COPIED {
            if let Ok(found) = version.path().join(name).metadata() {
                let path = Path::new(&version.file_name()).join(name);
                files.insert(path, (found.ino(), found.len()));
            }
        }
    }
    Ok(files)
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
