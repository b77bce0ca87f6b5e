//! Path lookup one component at a time, following only trusted symbolic links: a user who can create a link
//! where root writes could choose which file root writes to.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::host::fs::root::{FoundDirectory, GraftPoint, RootGrafts};

/// Maximum number of links in a path: the kernel's own limit.
const LINKS: usize = 40;

/// Permission bits that let group and others change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Directory on the path walked so far.
struct Place {
    directory: OwnedFd,
    graft: Option<GraftPoint>,
}

/// Walk from `root` to the directory at `relative`. `grafts` replace top-level directories of the root.
///
/// An absolute link is followed from the root, like with `RESOLVE_IN_ROOT` of openat2(2).
///
/// Fails with `EXDEV` if `..` in a link leaves the root, or if an absolute link leads nowhere, so that what is
/// behind it does not count as absent; with `ELOOP` if there are too many links, and with `ENOLINK`
/// if a link is not trusted, like systemd.
pub(crate) fn walk(root: &OwnedFd, grafts: &RootGrafts, relative: &str) -> Result<FoundDirectory, Errno> {
    let mut names: VecDeque<String> = components(relative).collect();
    // Directories entered so far, for `..`; empty at the root.
    let mut entered: Vec<Place> = Vec::new();
    let mut links = 0;
    // Number of names that remain when the target of an absolute link is reached.
    let mut behind_absolute = usize::MAX;
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
        let next = match rustix::fs::openat(here, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if names.len() >= behind_absolute => return Err(Errno::XDEV),
            opened => opened?,
        };
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
                    // The root acts as `/`, as in a chroot.
                    entered.clear();
                    behind_absolute = behind_absolute.min(names.len());
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

/// Check that only a trusted user can have created a link in `holder`: root, or the user who runs this on a
/// tree of their own.
fn ensure_trusted(holder: &OwnedFd) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(holder)?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    if owners.contains(&stat.st_uid) && stat.st_mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(Errno::NOLINK)
}
