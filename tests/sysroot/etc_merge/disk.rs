//! Trees on a disk: planted, read back without the product, and removed.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;

use flameholder::core::etc_merge::{EtcBody, EtcNode, FileContent};
use flameholder::core::values::tree::{ContentDigest, FileAttributes};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::etc_merge::tree::{Kind, Plant};

/// Creates `plant` at `path`, where there is one.
pub(crate) fn plant_any(path: &Path, plant: Option<&Plant>) {
    if let Some(plant) = plant {
        self::plant(path, plant);
    }
}

/// Creates `plant` at `path`.
fn plant(path: &Path, plant: &Plant) {
    let special = |kind| rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), 0).unwrap();
    match &plant.kind {
        Kind::File(text) => fs::write(path, text).unwrap(),
        Kind::Symlink(target) => symlink(target, path).unwrap(),
        Kind::Directory(entries) => {
            fs::create_dir(path).unwrap();
            for (name, child) in entries {
                self::plant(&path.join(name), child);
            }
        }
        Kind::Fifo => special(FileType::Fifo),
        Kind::Socket => special(FileType::Socket),
    }
    for (name, value) in &plant.xattrs {
        rustix::fs::lsetxattr(path, *name, value.as_bytes(), XattrFlags::empty()).unwrap();
    }
    lchown(path, Some(plant.owner.0), Some(plant.owner.1)).unwrap();
    if !matches!(plant.kind, Kind::Symlink(_)) {
        fs::set_permissions(path, Permissions::from_mode(plant.mode)).unwrap();
    }
}

/// Removes the node at `path`, if there is one.
pub(crate) fn clear(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// The node at `path`.
pub(crate) fn found(path: &Path) -> Option<EtcNode> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let mode = metadata.permissions().mode();
    let body = if metadata.is_file() {
        let bytes = fs::read(path).unwrap();
        EtcBody::File(FileContent { size: bytes.len() as u64, digest: Some(ContentDigest::of(&bytes)) })
    } else if metadata.is_symlink() {
        EtcBody::Symlink(fs::read_link(path).unwrap().into_os_string())
    } else if metadata.is_dir() {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        EtcBody::Directory(names.map(|name| (name.clone(), found(&path.join(&name)).unwrap())).collect())
    } else {
        EtcBody::Special(mode & 0o170_000)
    };
    let attributes = FileAttributes { mode: mode & 0o7777, uid: metadata.uid(), gid: metadata.gid() };
    Some(EtcNode { attributes, xattrs: xattrs(path), body })
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, ContentDigest> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names).unwrap();
    let of_users = names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let read = |name: &[u8]| {
        let mut value = [0; 64];
        let length = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
        (name.to_vec(), ContentDigest::of(&value[..length]))
    };
    of_users.map(read).collect()
}
