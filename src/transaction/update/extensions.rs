//! The packages of extensions and kernels, which come as an image of their own: while rpm-ostreed is asked for some, they
//! are unpacked, and a repository that says where. Both are gone afterwards, or with the next command; that they are there
//! is the record of it.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::core::values::image::ImageRef;
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::FileAttributes;
use crate::host::{FileOperation, HostDisk, HostError, Root};
use crate::os::Sysroot;

use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file::remove_if_present;

/// Where an image has them.
const IN_IMAGE: &str = "/usr/share/rpm-ostree/extensions";
/// Where they are unpacked: on a disk, since they may be larger than what fits into memory, and where nobody else writes,
/// since nothing is asked of them but to be there.
const UNPACKED: &str = "/var/lib/flameholder/extensions";
/// What tells rpm-ostreed. Nobody else has a file of this name.
const REPOSITORY: &str = "/etc/yum.repos.d/flameholder-extensions.repo";

/// They are there until this goes.
#[derive(Debug)]
pub(crate) struct ExtensionsRepository<'a>(&'a Root);

impl Drop for ExtensionsRepository<'_> {
    fn drop(&mut self) {
        if let Err(error) = remove(self.0) {
            log::warn!("{REPOSITORY} and {UNPACKED} are left for the next command to remove: {error}");
        }
    }
}

/// Unpacks `image`, as a config names it, and lends what is in it. What an earlier run lent is taken back already.
pub(crate) fn provide<'a>(
    root: &'a Root,
    os: &mut dyn Sysroot,
    image: &str,
) -> Result<ExtensionsRepository<'a>, TransactionError> {
    let image: ImageRef = image.parse().map_err(|error: crate::core::values::image::ImageRefError| {
        RefusalList::one("spec.baseOSExtensionsContainerImage", error.to_string())
    })?;
    let lent = ExtensionsRepository(root);
    let directory = Path::new(UNPACKED);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| HostError::io(FileOperation::MakeDirectory, directory, &error))?;
    os.unpack(&image, Path::new(IN_IMAGE), directory)?;
    let text = format!(
        "# Made by flameholder for as long as it has packages installed.\n[coreos-extensions]\nname=Extensions of the OS\nenabled=1\nmetadata_expire=1m\nbaseurl=file://{UNPACKED}/\ngpgcheck=0\nskip_if_unavailable=False\n"
    );
    let path = ManagedPath::constant(REPOSITORY);
    if let Some(parent) = path.parent()
        && root.status(&parent)?.is_none()
    {
        root.make_directory(&parent, FileAttributes { mode: 0o755, uid: 0, gid: 0 }, None)?;
    }
    root.create_file(&path, text.as_bytes(), FileAttributes { mode: 0o644, uid: 0, gid: 0 }, None)?;
    Ok(lent)
}

/// Takes back what was lent, by this run or by one that was killed.
pub(crate) fn remove(root: &Root) -> Result<(), HostError> {
    let path = ManagedPath::constant(REPOSITORY);
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
