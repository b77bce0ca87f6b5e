//! Finds a directory one name at a time, and follows a symbolic link only where it can be trusted:
//! whoever may put a link where root writes could choose what root writes to.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::host::fs::root::{FoundDirectory, GraftPoint, RootGrafts};

/// As many links as the kernel follows in one path.
const LINKS: usize = 40;

/// Permission bits that let others than the owner change what a directory holds.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A directory on the way.
struct Place {
    directory: OwnedFd,
    graft: Option<GraftPoint>,
}

/// Walks from `root` to the directory at `relative`; `grafts` stand in for directories of the root.
///
/// Fails with `EXDEV` where a link leaves the root, with `ELOOP` where there are too many, and with
/// `ENOLINK` where one is not to be trusted, as systemd does.
pub(crate) fn walk(root: &OwnedFd, grafts: &RootGrafts, relative: &str) -> Result<FoundDirectory, Errno> {
    let mut names: VecDeque<String> = components(relative).collect();
    // The directories entered so far, for `..`; empty at the root itself.
    let mut entered: Vec<Place> = Vec::new();
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        if name == ".." {
            entered.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let here = entered.last().map_or(root, |place| &place.directory);
        let graft = entered.last().and_then(|place| place.graft);
        if let (true, Some((elsewhere, graft))) = (entered.is_empty(), grafts.at(&name)) {
            let directory = rustix::io::fcntl_dupfd_cloexec(elsewhere, 0)?;
            entered.push(Place { directory, graft: Some(graft) });
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(here, &name, flags, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) {
            FileType::Directory => entered.push(Place { directory: next, graft }),
            FileType::Symlink => {
                links += 1;
                if links > LINKS {
                    return Err(Errno::LOOP);
                }
                ensure_trusted(here)?;
                let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
                let target = target.into_string().map_err(|_| Errno::NOENT)?;
                if target.starts_with('/') {
                    return Err(Errno::XDEV);
                }
                for name in components(&target).collect::<Vec<_>>().into_iter().rev() {
                    names.push_front(name);
                }
            }
            _ => return Err(Errno::NOTDIR),
        }
    }
    match entered.pop() {
        Some(Place { directory, graft }) => Ok(FoundDirectory { directory, graft }),
        None => Ok(FoundDirectory { directory: rustix::io::fcntl_dupfd_cloexec(root, 0)?, graft: None }),
    }
}

fn components(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned)
}

/// Only the owner of the tree may have put a link into `holder`: root, or whoever runs this on a
/// tree of their own.
fn ensure_trusted(holder: &OwnedFd) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(holder)?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    if owners.contains(&stat.st_uid) && stat.st_mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(Errno::NOLINK)
}
