//! A directory with the files that Butane configs name by `local`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::core::config::butane::{LocalEntry, LocalFileError, LocalFiles, LocalNode};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::host::trusted_path::ensure_only_root_changes;

/// Mode bits of a program.
const EXECUTABLE: u32 = 0o111;

/// Files below a directory. No link leads out of it, and files that are no regular ones are not read.
#[derive(Debug)]
pub struct LocalDirectory {
    path: PathBuf,
    demands_trust: bool,
    /// Bytes that may still be read.
    left: Cell<usize>,
    /// Directories with files that were asked for.
    asked: RefCell<BTreeSet<PathBuf>>,
}

impl LocalDirectory {
    /// Name the directory; it is opened when a file is read.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            demands_trust: false,
            left: Cell::new(limits::INFLATED_BYTES),
            asked: RefCell::default(),
        }
    }

    /// Name the directory, and refuse each file in it that users other than root can change.
    #[must_use]
    pub fn of_root(path: &Path) -> Self {
        Self { demands_trust: true, ..Self::new(path) }
    }

    /// Return the directory of a config's local files: that of its file.
    #[must_use]
    pub fn of_file(file: &Path) -> &Path {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// List the directories with files that were asked for, missing ones among them: a change there can change the config.
    #[must_use]
    pub fn directories(&self) -> BTreeSet<PathBuf> {
        self.asked.borrow().clone()
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, LocalFileError> {
        let full = self.path.join(path);
        let failed = |errno| unreadable(&full, errno);
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let top =
            rustix::fs::open(&self.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(top.map_err(failed)?, path, flags, Mode::empty(), resolve);
        let opened = opened.map_err(|errno| match errno {
            Errno::XDEV => LocalFileError::Outside,
            other => unreadable(&full, other),
        })?;
        if self.demands_trust {
            ensure_only_root_changes(&full).map_err(|error| LocalFileError::Unreadable(chain(&error)))?;
        }
        Ok(opened)
    }

    /// Read a regular file within the limit on all of them.
    fn contents(&self, path: &str) -> Result<(Vec<u8>, Stat), LocalFileError> {
        let full = self.path.join(path);
        // Also where the file is missing: it may come.
        self.note(full.parent());
        let file = self.open(path, OFlags::RDONLY)?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| unreadable(&full, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(LocalFileError::Special(full.display().to_string()));
        }
        let mut bytes = Vec::new();
        // One byte more than the rest tells files at the limit from those above it.
        let bound = self.left.get() as u64 + 1;
        let read = File::from(file).take(bound).read_to_end(&mut bytes);
        read.map_err(|error| LocalFileError::Unreadable(format!("reading {}: {error}", full.display())))?;
        let left = self.left.get().checked_sub(bytes.len()).ok_or(LocalFileError::TooLarge)?;
        self.left.set(left);
        Ok((bytes, stat))
    }

    fn note(&self, directory: Option<&Path>) {
        self.asked.borrow_mut().extend(directory.map(Path::to_owned));
    }

    /// Add all below the directory `below` of the tree at `tree`.
    fn walk(&self, tree: &str, below: &str, entries: &mut Vec<LocalEntry>) -> Result<(), LocalFileError> {
        let path = joined(tree, below);
        let full = self.path.join(&path);
        let failed = |errno| unreadable(&full, errno);
        let directory = self.open(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.note(Some(&full));
        let mut names = BTreeSet::new();
        let listed = entries.iter().filter(|entry| entry.node != LocalNode::Directory).count();
        for entry in Dir::read_from(&directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                let text = name.into_string().map_err(|_| {
                    LocalFileError::Unreadable(format!(
                        "{} has a file whose name is not UTF-8",
                        full.display()
                    ))
                })?;
                names.insert(text);
            }
            if names.len() + listed > limits::STORAGE_ENTRIES {
                return Err(LocalFileError::TooMany);
            }
        }
        for name in names {
            let path = joined(below, &name);
            let stat =
                rustix::fs::statat(&directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
            let node = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    entries.push(LocalEntry { path: path.clone(), node: LocalNode::Directory });
                    self.walk(tree, &path, entries)?;
                    continue;
                }
                FileType::Symlink => {
                    let target =
                        rustix::fs::readlinkat(&directory, name.as_str(), Vec::new()).map_err(failed)?;
                    LocalNode::Link { target: target.to_string_lossy().into_owned() }
                }
                _ => {
                    let (contents, stat) = self.contents(&joined(tree, &path))?;
                    LocalNode::File { contents, is_executable: stat.st_mode & EXECUTABLE != 0 }
                }
            };
            entries.push(LocalEntry { path, node });
        }
        Ok(())
    }
}

fn joined(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

fn unreadable(path: &Path, errno: Errno) -> LocalFileError {
    LocalFileError::Unreadable(format!("reading {}: {}", path.display(), std::io::Error::from(errno)))
}

impl LocalFiles for LocalDirectory {
    fn read(&self, path: &str) -> Result<Vec<u8>, LocalFileError> {
        self.contents(path).map(|(bytes, _)| bytes)
    }

    fn tree(&self, path: &str) -> Result<Vec<LocalEntry>, LocalFileError> {
        let mut entries = Vec::new();
        self.walk(path.trim_end_matches('/'), "", &mut entries)?;
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn directory() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("files/tree/b")).unwrap();
        for (name, text) in
            [("secret", "s"), ("files/a", "a"), ("files/tree/c", "c"), ("files/tree/b/d", "d")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::set_permissions(folder.path().join("files/tree/c"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("c", folder.path().join("files/tree/link")).unwrap();
        folder
    }

    #[test]
    fn files_and_trees_are_read_in_the_order_of_their_names() {
        let folder = directory();
        let local = LocalDirectory::new(&folder.path().join("files"));
        assert_eq!(local.read("a").unwrap(), b"a");
        let entries = local.tree("tree/").unwrap();
        let paths: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["b", "b/d", "c", "link"]);
        assert_eq!(entries[0].node, LocalNode::Directory);
        assert_eq!(entries[2].node, LocalNode::File { contents: b"c".into(), is_executable: true });
        assert_eq!(entries[3].node, LocalNode::Link { target: "c".into() });
        assert_eq!(local.directories().len(), 3);
    }

    #[test]
    fn no_link_leads_out_and_nothing_special_is_read() {
        let folder = directory();
        let files = folder.path().join("files");
        symlink("../secret", files.join("out")).unwrap();
        symlink("/etc/passwd", files.join("absolute")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, files.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let local = LocalDirectory::new(&files);
        for path in ["out", "absolute", "../secret"] {
            assert!(matches!(local.read(path), Err(LocalFileError::Outside)), "{path}");
        }
        assert!(matches!(local.read("pipe"), Err(LocalFileError::Special(_))));
        assert!(matches!(local.read("tree"), Err(LocalFileError::Special(_))));
        let missing = local.read("missing").unwrap_err().to_string();
        assert!(missing.contains("files/missing: No such file"), "{missing}");
    }

    #[test]
    fn file_that_others_can_write_is_not_trusted() {
        let folder = directory();
        let files = folder.path().join("files");
        fs::set_permissions(files.join("a"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(LocalDirectory::new(&files).read("a").is_ok());
        let refused = LocalDirectory::of_root(&files).read("a").unwrap_err().to_string();
        assert!(refused.contains("chown") || refused.contains("chmod"), "{refused}");
    }
}
