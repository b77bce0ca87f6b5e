//! Atomic replacement of the agent's own files: a power cut leaves the old or the new file, both complete.

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileAttributes;
use crate::host::{HostDisk, HostError, Root};

/// Root only: pending records and reports can contain secrets.
pub(crate) const ATTRIBUTES: FileAttributes = FileAttributes { mode: 0o600, uid: 0, gid: 0 };
/// For documents without secrets.
pub(crate) const READABLE: FileAttributes = FileAttributes { mode: 0o644, ..ATTRIBUTES };

/// Write `contents` to `path`, durably. `new` is the temporary name, on the same filesystem.
pub(crate) fn write(
    disk: &dyn HostDisk,
    path: &ManagedPath,
    new: &ManagedPath,
    contents: &[u8],
) -> Result<(), HostError> {
    write_with(disk, path, new, contents, ATTRIBUTES)
}

fn write_with(
    disk: &dyn HostDisk,
    path: &ManagedPath,
    new: &ManagedPath,
    contents: &[u8],
    attributes: FileAttributes,
) -> Result<(), HostError> {
    remove_if_present(disk, new)?;
    disk.create_file(new, contents, attributes, None)?;
    disk.sync(&[Some(new.clone())])?;
    if disk.status(path)?.is_none() {
        disk.rename(new, path)?;
        return disk.sync(&[path.parent()]);
    }
    disk.exchange(new, path)?;
    disk.sync(&[path.parent()])?;
    disk.remove_file(new)
}

/// Write `contents` to a `path` below `/run`, and create missing directories.
pub(crate) fn write_to_run(
    root: &Root,
    path: &ManagedPath,
    new: &ManagedPath,
    contents: &[u8],
    attributes: FileAttributes,
) -> Result<(), HostError> {
    for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
        if root.status(&directory)?.is_none() {
            root.make_directory(&directory, FileAttributes { mode: 0o755, uid: 0, gid: 0 }, None)?;
        }
    }
    write_with(root, path, new, contents, attributes)
}

/// Return the path to which [`set_aside`] moves a document.
pub(crate) fn aside(path: &ManagedPath) -> ManagedPath {
    ManagedPath::constant(&format!("{path}.unreadable"))
}

/// Move a document that cannot be read beside itself, durably, so that it is in the way of no command and is kept for the
/// release that wrote it. Replaces one that was set aside before.
pub(crate) fn set_aside(disk: &dyn HostDisk, path: &ManagedPath) -> Result<(), HostError> {
    let aside = aside(path);
    remove_if_present(disk, &aside)?;
    disk.rename(path, &aside)?;
    disk.sync(&[path.parent()])
}

/// Remove `path` if it exists. The caller syncs the directory.
pub(crate) fn remove_if_present(disk: &dyn HostDisk, path: &ManagedPath) -> Result<(), HostError> {
    match disk.status(path)? {
        Some(_) => disk.remove_file(path),
        None => Ok(()),
    }
}
