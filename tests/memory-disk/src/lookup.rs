//! Lookup of a path's directory in an image, by the rules of the product's own lookup: links above a path are
//! followed if they stay in the tree and only the tree's owner can have made them.

use std::collections::VecDeque;

use flameholder::core::values::names::ManagedPath;
use rustix::io::Errno;

use crate::image::{Body, Image, Number, TOP};

/// Limit of links that the kernel follows in one path.
const LINKS: usize = 40;

/// Directory that was found, and the directories on the way to it, itself last.
#[derive(Debug)]
pub(crate) struct Found {
    pub number: Number,
    pub chain: Vec<Number>,
}

/// Find the directory at `path`; `None` is the root.
pub(crate) fn directory(image: &Image, path: Option<&ManagedPath>) -> Result<Found, Errno> {
    let spelled = path.map_or("", ManagedPath::relative);
    let mut names: VecDeque<String> = parts(spelled).collect();
    let (mut entered, mut links): (Vec<Number>, usize) = (vec![TOP], 0);
    let mut behind_absolute = usize::MAX;
    while let Some(name) = names.pop_front() {
        let here = *entered.last().expect("the root is never left");
        if name == ".." {
            entered.pop();
            if entered.is_empty() {
                return Err(Errno::XDEV);
            }
            continue;
        }
        let missing = if names.len() >= behind_absolute { Errno::XDEV } else { Errno::NOENT };
        let next = image.entry(here, &name).ok_or(missing)?;
        match &image.inode(next).body {
            Body::Directory(_) => entered.push(next),
            Body::Symlink(target) => {
                links += 1;
                if links > LINKS {
                    return Err(Errno::LOOP);
                }
                ensure_trusted(image, here)?;
                if target.starts_with('/') {
                    entered.truncate(1);
                    behind_absolute = behind_absolute.min(names.len());
                }
                for name in parts(target).collect::<Vec<_>>().into_iter().rev() {
                    names.push_front(name);
                }
            }
            Body::File(_) => return Err(Errno::NOTDIR),
        }
    }
    let number = *entered.last().expect("the root is never left");
    Ok(Found { number, chain: entered })
}

fn parts(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned)
}

fn ensure_trusted(image: &Image, holder: Number) -> Result<(), Errno> {
    let rights = image.inode(holder).attributes;
    let owners = [0, rustix::process::geteuid().as_raw()];
    let is_trusted = owners.contains(&rights.uid) && rights.mode & 0o022 == 0;
    if is_trusted { Ok(()) } else { Err(Errno::NOLINK) }
}
