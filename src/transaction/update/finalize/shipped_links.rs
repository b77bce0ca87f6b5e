//! Enablement links that a new image ships in `/usr/etc/systemd`, and that neither the old image nor this
//! host has.
//!
//! libostree's merge would add them after the config's units were enabled or disabled in the copy of
//! `/etc`, and so override the config. Therefore they are added to that copy before, and to a copy of the
//! old image's `/usr/etc`: a link that stays is no local change then, and one that the config disables
//! counts as removed locally.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Directory of enablement links, below `/etc`.
const UNITS: &str = "systemd/system";

/// Create the links that exist in `new`, but neither in `base` nor in `local`, in each directory of
/// `copies`. Returns true if there are any.
pub(crate) fn add_shipped_links(new: &Path, base: &Path, local: &Path, copies: &[&Path]) -> io::Result<bool> {
    let mut links = Vec::new();
    collect(new, Path::new(UNITS), &mut links)?;
    links.retain(|link| !exists(&base.join(link)) && !exists(&local.join(link)));
    for link in &links {
        let target = fs::read_link(new.join(link))?;
        for copy in copies {
            make_parents(new, copy, link)?;
            let at = copy.join(link);
            // A file at a parent's path is left to libostree, which refuses the merge or drops the link.
            if at.parent().is_some_and(Path::is_dir) && !exists(&at) {
                symlink(&target, at)?;
            }
        }
    }
    Ok(!links.is_empty())
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn collect(top: &Path, directory: &Path, links: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match top.join(directory).read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (directory.join(entry.file_name()), entry.file_type()?);
        if kind.is_symlink() {
            links.push(path);
        } else if kind.is_dir() {
            collect(top, &path, links)?;
        }
    }
    Ok(())
}

/// Create missing parent directories of `link` in `copy`, with their modes from `new`.
fn make_parents(new: &Path, copy: &Path, link: &Path) -> io::Result<()> {
    let mut parents: Vec<&Path> = link.ancestors().skip(1).collect();
    parents.reverse();
    for parent in parents {
        let directory = copy.join(parent);
        if !exists(&directory) {
            fs::create_dir(&directory)?;
            let mode = new.join(parent).metadata()?.permissions().mode();
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode & 0o7777))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_that_base_and_local_lack_is_added_to_both() {
        let scratch = tempfile::tempdir().unwrap();
        let [new, base, local] = ["new", "base", "local"].map(|name| scratch.path().join(name));
        let wants = "systemd/system/multi-user.target.wants";
        for top in [&new, &base, &local] {
            fs::create_dir_all(top.join("systemd/system")).unwrap();
        }
        fs::create_dir(new.join(wants)).unwrap();
        for unit in ["shipped", "in-base", "in-local"] {
            symlink(format!("/usr/lib/systemd/system/{unit}"), new.join(wants).join(unit)).unwrap();
        }
        for (top, unit) in [(&base, "in-base"), (&local, "in-local")] {
            fs::create_dir(top.join(wants)).unwrap();
            symlink("elsewhere", top.join(wants).join(unit)).unwrap();
        }
        assert!(add_shipped_links(&new, &base, &local, &[&base, &local]).unwrap());
        for (top, other) in [(&base, "in-base"), (&local, "in-local")] {
            let mut names: Vec<_> =
                top.join(wants).read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, [other, "shipped"]);
        }
        assert!(!add_shipped_links(&base, &new, &local, &[&local]).unwrap());
    }
}
