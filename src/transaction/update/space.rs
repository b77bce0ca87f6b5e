//! Free-space checks before staging and before any workload is disrupted.

mod boot_files;

use std::path::{Path, PathBuf};

use boot_files::BootPartition;
use rustix::fs::statvfs;

use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::PreflightCheck;
use crate::core::state::objects;
use crate::core::values::tree::{ContentDigest, FileEntry};
use crate::host::facts::booted::SYSROOT;
use crate::host::{Root, RunningHost};
use crate::os::{DeploymentId, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::plan::deployment_plan::DeploymentPlan;

/// Filesystem that kernels are copied to.
const BOOT: &str = "/boot";
/// Directory for the initrds of the staged deployment.
const STAGED_INITRDS: &str = "/run/ostree/staged-initrds";
/// Directory for the files of generations that outlives deployments.
const VAR: &str = "/var";
/// Filesystem for the copies of `/etc` in a rehearsal.
const RUN: &str = "/run";
/// Reserve for boot entries, new directories and filesystem metadata.
const SLACK: u64 = 8 << 20;

/// Too little free space; all sizes in bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} needs {} MiB ({needed} bytes) on the file system of {}, which has {} MiB ({free} bytes) free; {remedy}",
    needed.div_ceil(MEBIBYTE),
    place.display(),
    free / MEBIBYTE
)]
pub struct SpaceError {
    what: &'static str,
    place: PathBuf,
    needed: u64,
    free: u64,
    remedy: &'static str,
}

const MEBIBYTE: u64 = 1 << 20;
const REMOVE_DEPLOYMENTS: &str =
    "remove old deployments (`ostree admin undeploy`, `rpm-ostree cleanup -r`), or enlarge it";
const REMOVE_FILES: &str = "remove files from it, or enlarge it";
const KERNEL: &str = "the kernel of the new deployment";
const ETC: &str = "the /etc of the new deployment";
const OUTSIDE: &str = "storing the files outside /etc";

/// Free space of one file system, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeSpace {
    /// Directory on it.
    pub place: &'static str,
    pub free: u64,
    pub total: u64,
}

/// Return the free space where updates need it. File systems that cannot be queried are left out.
#[must_use]
pub fn free_space() -> Vec<FreeSpace> {
    let found = [BOOT, SYSROOT, VAR].map(|place| Some((place, statvfs(place).ok()?)));
    let bytes = |blocks: u64, size: u64| blocks.saturating_mul(size);
    found
        .into_iter()
        .flatten()
        .map(|(place, stat)| FreeSpace {
            place,
            free: bytes(stat.f_bavail, stat.f_frsize),
            total: bytes(stat.f_blocks, stat.f_frsize),
        })
        .collect()
}

/// Compare the free space with the needs of an update, as far as that is known before the new image is imported: its
/// kernel is taken to be as large as the booted one's, and its layers are not counted.
pub(crate) fn preflight(
    os: &mut dyn Sysroot,
    host: &RunningHost,
    draft: &DeploymentPlan,
) -> Result<Vec<PreflightCheck>, TransactionError> {
    let booted = &host.booted.deployment;
    let kernel = if draft.is_same_os() {
        0
    } else {
        let boot = boot_partition();
        let kernel = boot.kernel_bytes(booted).unwrap_or(0);
        kernel.saturating_sub(prunable_bytes(os, booted)?)
    };
    let outside = draft.plan.tree.as_ref().map(|tree| &tree.outside);
    let stored = outside.map_or(0, |outside| stored_bytes(&host.root, outside, draft.current.host()));
    let etc = tree_bytes(Path::new("/etc")).unwrap_or(0);
    Ok(vec![
        space_check("space on /boot", KERNEL, BOOT, kernel, REMOVE_DEPLOYMENTS),
        space_check("space on /sysroot", ETC, SYSROOT, etc, REMOVE_DEPLOYMENTS),
        space_check("space on /var", OUTSIDE, VAR, stored, REMOVE_FILES),
    ])
}

fn space_check(
    check: &'static str,
    what: &'static str,
    place: &str,
    needed: u64,
    remedy: &'static str,
) -> PreflightCheck {
    match measure(what, Path::new(place), needed, remedy) {
        Err(error) => PreflightCheck { check, ok: false, detail: error.to_string() },
        Ok(free) => {
            let detail = format!("{place} has {} MiB free: {what} needs less", free / MEBIBYTE);
            PreflightCheck { check, ok: true, detail }
        }
    }
}

/// Fail if space is missing to stage a generation with these files outside `/etc`: for their content and
/// pre-images in `/var`, and for the copies of `/etc` from which finalization is rehearsed.
pub(crate) fn ensure_space_to_stage(
    host: &Root,
    outside: &ManagedFiles,
    current: Option<&HostConfig>,
) -> Result<(), TransactionError> {
    measure(OUTSIDE, Path::new(VAR), stored_bytes(host, outside, current), REMOVE_FILES)?;
    let copies = ["/etc", "/usr/etc"].map(|from| tree_bytes(Path::new(from)).unwrap_or(0));
    measure("copying /etc", Path::new(RUN), copies.iter().sum(), REMOVE_FILES)?;
    Ok(())
}

/// Fail if space is missing to finalize the deployment: for its kernel on `/boot`, and for its `/etc`.
pub(crate) fn ensure_space_to_finalize(
    os: &mut dyn Sysroot,
    new: &DeploymentId,
) -> Result<(), TransactionError> {
    // An unreadable file is not counted: the copy itself reports the error.
    let kernel = boot_partition().copied_bytes(new).unwrap_or(0);
    let kernel = kernel.saturating_sub(prunable_bytes(os, new)?);
    measure(KERNEL, Path::new(BOOT), kernel, REMOVE_DEPLOYMENTS)?;
    let etc = tree_bytes(Path::new("/etc")).unwrap_or(0);
    measure(ETC, &Path::new(SYSROOT).join(new.path()), etc, REMOVE_DEPLOYMENTS)?;
    Ok(())
}

fn boot_partition() -> BootPartition<'static> {
    BootPartition {
        boot: Path::new(BOOT),
        sysroot: Path::new(SYSROOT),
        staged_initrds: Path::new(STAGED_INITRDS),
    }
}

/// Return the bytes on `/boot` that libostree frees before it copies the kernel of the deployment `new`.
fn prunable_bytes(os: &mut dyn Sysroot, new: &DeploymentId) -> Result<u64, TransactionError> {
    if !os.prunes_boot_early() {
        return Ok(0);
    }
    Ok(boot_partition().prunable_bytes(new, &kept_beside(os, new)?).unwrap_or(0))
}

/// List the deployments that keep their boot entries when the new one gets its own: libostree drops the
/// others of the stateroot.
fn kept_beside(os: &mut dyn Sysroot, new: &DeploymentId) -> Result<Vec<DeploymentId>, TransactionError> {
    let deployments = os.deployments()?.into_iter();
    let kept =
        deployments.filter(|found| found.booted || found.pinned || found.id.stateroot != new.stateroot);
    Ok(kept.map(|found| found.id).collect())
}

/// Return the free bytes on the file system of `place`; an error if these are fewer than needed.
fn measure(what: &'static str, place: &Path, needed: u64, remedy: &'static str) -> Result<u64, SpaceError> {
    // If the file system cannot be queried, the write itself reports the error.
    let Ok(stat) = statvfs(place) else { return Ok(0) };
    let (free, needed) = (stat.f_bavail.saturating_mul(stat.f_frsize), needed + SLACK);
    if free >= needed {
        return Ok(free);
    }
    Err(SpaceError { what, place: place.to_owned(), needed, free, remedy })
}

/// Return the bytes that a generation adds to `/var`: new objects, the files that activation makes of them,
/// and pre-images of files that were not managed.
fn stored_bytes(host: &Root, outside: &ManagedFiles, current: Option<&HostConfig>) -> u64 {
    let mut bytes = 0;
    for (path, entry) in &outside.entries {
        let FileEntry::File { contents, .. } = entry else { continue };
        let object = objects::object_path(ContentDigest::of(contents));
        if !host.exists(&object).unwrap_or(false) {
            bytes += 2 * contents.len() as u64;
        }
        if current.is_none_or(|current| !current.files.contains_key(path)) {
            let before = host.path().join(path.relative()).symlink_metadata();
            bytes += before.map_or(0, |before| before.len());
        }
    }
    bytes
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::core::values::names::ManagedPath;
    use crate::core::values::tree::FileAttributes;

    fn outside(files: &[(&str, &str)]) -> ManagedFiles {
        let attributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };
        let entry = |(path, text): &(&str, &str)| {
            let contents = text.as_bytes().to_vec();
            (ManagedPath::parse(path).unwrap(), FileEntry::File { contents, attributes })
        };
        ManagedFiles {
            entries: files.iter().map(entry).collect::<BTreeMap<_, _>>(),
            ..ManagedFiles::default()
        }
    }

    #[test]
    fn new_objects_activated_files_and_pre_images_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let files = outside(&[("/var/one", "12345"), ("/var/two", "123")]);
        assert_eq!(stored_bytes(&root, &files, None), 2 * 8);
        fs::create_dir(directory.path().join("var")).unwrap();
        fs::write(directory.path().join("var/one"), "before").unwrap();
        assert_eq!(stored_bytes(&root, &files, None), 2 * 8 + 6);
        let object = directory.path().join(objects::object_path(ContentDigest::of(b"12345")).relative());
        fs::create_dir_all(object.parent().unwrap()).unwrap();
        fs::write(object, "12345").unwrap();
        assert_eq!(stored_bytes(&root, &files, None), 2 * 3 + 6, "one object is stored already");
    }

    #[test]
    fn message_names_file_system_sizes_and_remedy() {
        let needed = u64::MAX - SLACK;
        let error = measure("a test", Path::new("/proc"), needed, REMOVE_FILES).unwrap_err().to_string();
        for part in
            ["a test needs", "bytes) on the file system of /proc", "0 MiB (0 bytes) free", REMOVE_FILES]
        {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
