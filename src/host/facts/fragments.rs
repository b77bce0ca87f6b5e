//! Reads the fragments of the agent's own configuration.

use std::collections::BTreeMap;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::core::config::settings::{FRAGMENT_DIRECTORIES, FRAGMENT_SUFFIX, FragmentFile};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::MASK;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::read_bounded;
use crate::host::fs::root::Root;

/// How often a lookup is repeated that the kernel gave up because somebody renamed under it.
const LOOKUPS: usize = 16;

/// The fragments below `root`, by file name. A name in a later directory replaces the same name in
/// an earlier one; one that is a link to `/dev/null` takes it away.
pub fn load_fragments(root: &Root) -> Result<Vec<FragmentFile>, HostError> {
    let mut found: BTreeMap<String, ManagedPath> = BTreeMap::new();
    for directory in FRAGMENT_DIRECTORIES {
        let directory = ManagedPath::constant(directory);
        for name in root.list(&directory)? {
            if name.ends_with(FRAGMENT_SUFFIX) && !name.starts_with('.') {
                let path = directory.join(&name);
                found.insert(name, path);
            }
        }
    }
    let mut fragments = Vec::new();
    for path in found.into_values() {
        if root.link_target(&path)?.as_deref() == Some(MASK) {
            continue;
        }
        let bytes = read_bounded(open(root, &path)?, &path, limits::FRAGMENT_BYTES)?;
        fragments.push(FragmentFile { path, bytes });
    }
    Ok(fragments)
}

/// Opens the file at `path`, through a link too as long as that stays beneath the root.
fn open(root: &Root, path: &ManagedPath) -> Result<OwnedFd, HostError> {
    let failed = |errno| match errno {
        // It was listed, so only what it leads to can be missing, or out of reach.
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

fn look_up(root: &Root, path: &ManagedPath) -> Result<OwnedFd, Errno> {
    // A pipe's other end is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let top = root.top()?;
    let open = || rustix::fs::openat2(&top, path.relative(), flags, Mode::empty(), resolve);
    (1..LOOKUPS).map(|_| open()).find(|opened| !matches!(opened, Err(Errno::AGAIN))).unwrap_or_else(open)
}
