//! Fragments (`config.d` drop-ins) of the agent's own settings.

use std::collections::BTreeMap;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::core::config::settings::{FRAGMENT_DIRECTORIES, FragmentFile, is_fragment_name};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::MASK;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::read_bounded;
use crate::host::fs::root::Root;

/// Most links from one to the next: the kernel's own limit.
const LINKS: usize = 40;

/// Load the fragments below `root`, sorted by file name. A name in a later directory overrides the same name
/// in an earlier one; a link to `/dev/null` masks it.
pub fn load_fragments(root: &Root) -> Result<Vec<FragmentFile>, HostError> {
    load_changed_fragments(root, &BTreeMap::new())
}

/// Load the fragments as they are after a change, by the new contents of the files in it; `None` for a removed file.
pub(crate) fn load_changed_fragments(
    root: &Root,
    changed: &BTreeMap<ManagedPath, Option<Vec<u8>>>,
) -> Result<Vec<FragmentFile>, HostError> {
    let mut found: BTreeMap<String, ManagedPath> = BTreeMap::new();
    for directory in FRAGMENT_DIRECTORIES {
        let directory = ManagedPath::constant(directory);
        ensure_directory(root, &directory)?;
        let written = changed
            .iter()
            .filter(|(path, text)| text.is_some() && path.parent().as_ref() == Some(&directory));
        let written = written.map(|(path, _)| path.file_name().to_owned());
        let is_kept = |name: &String| changed.get(&directory.join(name)) != Some(&None);
        for name in root.list(&directory)?.into_iter().filter(is_kept).chain(written) {
            if is_fragment_name(&name) {
                let path = directory.join(&name);
                found.insert(name, path);
            }
        }
    }
    let mut fragments = Vec::new();
    for path in found.into_values() {
        if let Some(Some(bytes)) = changed.get(&path) {
            fragments.push(FragmentFile { path, bytes: bytes.clone() });
            continue;
        }
        if root.link_target(&path)?.as_deref() == Some(MASK) {
            continue;
        }
        let bytes = read_bounded(open(root, &path)?, &path, limits::FRAGMENT_BYTES)?;
        fragments.push(FragmentFile { path, bytes });
    }
    Ok(fragments)
}

/// Fail where something else is in the place of a directory of fragments: its settings must not be without effect.
fn ensure_directory(root: &Root, path: &ManagedPath) -> Result<(), HostError> {
    let failed = |errno| HostError::new(FileOperation::List, path.as_str(), errno);
    match root.status_of(path)? {
        Some(_) => root.directory(path).map(drop).map_err(failed),
        None => Ok(()),
    }
}

/// List the fragments whose names no path can have, by directory: they cannot be read, and must not be without effect.
pub(crate) fn unusable_fragments(root: &Root) -> Result<Vec<(ManagedPath, String)>, HostError> {
    let mut found = Vec::new();
    for directory in FRAGMENT_DIRECTORIES {
        let directory = ManagedPath::constant(directory);
        let names = root.unmentionable(&directory)?.into_iter();
        let names = names.filter(|name| is_fragment_name(name));
        found.extend(names.map(|name| (directory.clone(), name)));
    }
    Ok(found)
}

/// Open the file at `path`. A symlink is followed if its target is beneath the root.
fn open(root: &Root, path: &ManagedPath) -> Result<OwnedFd, HostError> {
    let failed = |errno| match errno {
        // The name was listed, so these errors concern the target of a link.
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO => {
            HostError::NotAFile { path: path.to_string() }
        }
        errno => HostError::new(FileOperation::Read, path.as_str(), errno),
    };
    let file = look_up(root, path).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(HostError::NotAFile { path: path.to_string() }),
    }
}

/// Open the file that `path` leads to, also where `/etc` and `/var` of the root are other directories than its own.
fn look_up(root: &Root, path: &ManagedPath) -> Result<OwnedFd, Errno> {
    // Do not wait for the writer of a named pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut path = path.clone();
    for _ in 0..LINKS {
        let directory = path.parent().map_or_else(|| root.top(), |parent| root.directory(&parent))?;
        match rustix::fs::openat(&directory, path.file_name(), flags, Mode::empty()) {
            Err(Errno::LOOP) => {
                let target = rustix::fs::readlinkat(&directory, path.file_name(), Vec::new())?;
                let target = target.into_string().map_err(|_| Errno::NOENT)?;
                path = path.leads_to(&target).ok_or(Errno::XDEV)?;
            }
            opened => return opened,
        }
    }
    Err(Errno::LOOP)
}
