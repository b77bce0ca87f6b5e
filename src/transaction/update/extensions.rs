//! Extensions image: packages of extensions and kernels, unpacked for the duration of one rpm-ostreed
//! transaction, with a repository file in `/etc/yum.repos.d` that points to them. Both are removed
//! afterwards, or by the next command if this process is killed.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::core::values::causes::chain;
use crate::core::values::image::{ImageRef, ImageRefError};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::EXTENSIONS_REPOSITORY;
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::FileAttributes;
use crate::host::{FileOperation, HostDisk, HostError, Root};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file::remove_if_present;

/// Directory of the packages in the image.
const IN_IMAGE: &str = "/usr/share/rpm-ostree/extensions";
/// Directory for the unpacked packages: on disk, because they may not fit into memory, and only writable by
/// root, because their signatures are not checked.
const UNPACKED: &str = "/var/lib/flameholder/extensions";

/// Guard that removes repository file and packages when dropped.
#[derive(Debug)]
pub(crate) struct ExtensionsRepository<'a>(&'a Root);

impl Drop for ExtensionsRepository<'_> {
    fn drop(&mut self) {
        if let Err(error) = remove(self.0) {
            log::warn!(
                "cannot remove {EXTENSIONS_REPOSITORY} and {UNPACKED}: {error}; the next command tries again",
                error = chain(&error)
            );
        }
    }
}

/// Unpack `image` and write the repository file. Leftovers of a killed process are already removed.
pub(crate) fn provide<'a>(
    root: &'a Root,
    os: &mut dyn Sysroot,
    image: &str,
) -> Result<ExtensionsRepository<'a>, TransactionError> {
    let image: ImageRef = image.parse().map_err(|error: ImageRefError| {
        RefusalList::one("spec.baseOSExtensionsContainerImage", error.to_string())
    })?;
    let repository = ExtensionsRepository(root);
    let directory = Path::new(UNPACKED);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| HostError::io(FileOperation::MakeDirectory, directory, &error))?;
    os.unpack(&image, Path::new(IN_IMAGE), directory)?;
    let path = ManagedPath::constant(EXTENSIONS_REPOSITORY);
    if let Some(parent) = path.parent()
        && root.status(&parent)?.is_none()
    {
        root.make_directory(&parent, FileAttributes { mode: 0o755, uid: 0, gid: 0 }, None)?;
    }
    let attributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };
    root.create_file(&path, repository_file().as_bytes(), attributes, None)?;
    Ok(repository)
}

/// True if the unpacked image has the package, whatever its version, or cannot be looked into.
pub(crate) fn is_unpacked(package: &str) -> bool {
    let prefix = format!("{package}-");
    let Ok(entries) = std::fs::read_dir(UNPACKED) else { return true };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
}

/// Write the text of the repository file, which points rpm-ostreed to the unpacked packages.
///
/// Their signatures are not checked: they are content of an image, which is verified as a whole where the host's policy
/// demands it, and to which administrators add packages whose keys no host has. They precede the packages of the host's
/// other repositories, whatever their versions.
fn repository_file() -> String {
    format!(
        "# Temporary file of flameholder, for one rpm-ostreed transaction.\n\
         [coreos-extensions]\nname=Extensions of the OS\nenabled=1\nmetadata_expire=1m\n\
         baseurl=file://{UNPACKED}/\ngpgcheck=0\npriority=1\nskip_if_unavailable=False\n"
    )
}

/// Remove the repository file and the packages, of this process or of a killed one.
pub(crate) fn remove(root: &Root) -> Result<(), HostError> {
    let path = ManagedPath::constant(EXTENSIONS_REPOSITORY);
    if root.status(&path)?.is_some() {
        remove_if_present(root, &path)?;
        root.sync(&[path.parent()])?;
    }
    let directory = Path::new(UNPACKED);
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HostError::io(FileOperation::Remove, directory, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_points_to_the_unpacked_packages() {
        let text = repository_file();
        assert!(text.contains(&format!("\nbaseurl=file://{UNPACKED}/\n")), "{text}");
    }
}
