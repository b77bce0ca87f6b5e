//! Free-space check for finalization, before any workload is disrupted.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use crate::transaction::TransactionError;

/// Filesystem that kernels are copied to.
const BOOT: &str = "/boot";
/// Directory of the kernels in a deployment.
const MODULES: &str = "usr/lib/modules";
/// Files of a kernel that are copied to `/boot`.
const COPIED: [&str; 2] = ["vmlinuz", "initramfs.img"];
/// Reserve for boot entries, new directories and filesystem metadata.
const SLACK: u64 = 8 << 20;

/// Too little free space; all sizes in bytes.
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

/// Fail if space is missing to finalize the deployment at `directory`: for its kernel on `/boot`, and for
/// its `/etc`.
pub(crate) fn ensure_space(directory: &Path) -> Result<(), TransactionError> {
    let kernel = kernel_bytes(directory).unwrap_or(0);
    ensure("the kernel of the new deployment", Path::new(BOOT), kernel)?;
    let etc = tree_bytes(Path::new("/etc")).unwrap_or(0);
    ensure("the /etc of the new deployment", directory, etc)
}

fn ensure(what: &'static str, place: &Path, needed: u64) -> Result<(), TransactionError> {
    // If the filesystem cannot be queried, the write itself reports the error.
    let Ok(stat) = statvfs(place) else { return Ok(()) };
    let (free, needed) = (stat.f_bavail.saturating_mul(stat.f_frsize), needed + SLACK);
    if free >= needed {
        return Ok(());
    }
    Err(SpaceError { what, place: place.to_owned(), needed, free }.into())
}

/// Return the bytes that finalization copies to `/boot`; 0 if the booted deployment has the same kernel.
/// Deployments share equal files as hard links, so equal inodes mean equal content.
fn kernel_bytes(directory: &Path) -> std::io::Result<u64> {
    let files = kernel_files(directory)?;
    let is_there = kernel_files(Path::new("/")).is_ok_and(|running| running == files);
    Ok(if is_there { 0 } else { files.values().map(|(_, bytes)| bytes).sum() })
}

/// Return inode and size of the files to copy, by path below [`MODULES`].
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
