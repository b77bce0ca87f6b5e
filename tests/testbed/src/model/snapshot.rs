//! All that can be seen of a tree, and how two sights of it differ.

use std::{collections::BTreeMap, fmt, fs, os::unix::fs::MetadataExt, path::Path};

/// The one file that a command which changes nothing may still touch.
pub const LOCK: &str = "var/lib/flameholder/lock";

/// What is at a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// A regular file's bytes.
    File(Vec<u8>),
    /// A symbolic link's target.
    Link(String),
    /// A directory.
    Directory,
    /// A socket, pipe or device.
    Other,
}

/// What a config can decide about a path.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    /// What is there.
    pub body: Body,
    /// Permission bits.
    pub mode: u32,
    /// Uid and gid.
    pub owner: (u32, u32),
}

/// What tells a path that was left alone from one that was written again alike: inode, modification and change
/// time, each in seconds and nanoseconds.
pub type Stamp = (u64, (i64, i64), (i64, i64));

/// Every path below a root, spelt relative to it, links not followed.
pub type Snapshot = BTreeMap<String, (Node, Stamp)>;

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o} {}:{} ", self.mode, self.owner.0, self.owner.1)?;
        match &self.body {
            Body::File(bytes) => {
                let shown: String = String::from_utf8_lossy(bytes).chars().take(60).collect();
                write!(f, "file of {} bytes {shown:?}", bytes.len())
            }
            Body::Link(target) => write!(f, "link to {target}"),
            Body::Directory => write!(f, "directory"),
            Body::Other => write!(f, "special file"),
        }
    }
}

/// Looks at everything below `root`.
pub fn take(root: &Path) -> Snapshot {
    let mut seen = Snapshot::new();
    descend(root, "", &mut seen);
    seen
}

fn descend(directory: &Path, prefix: &str, seen: &mut Snapshot) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let name = if prefix.is_empty() { name.into_owned() } else { format!("{prefix}/{name}") };
        let meta = path.symlink_metadata().expect("the entry's status");
        let body = if meta.is_dir() {
            descend(&path, &name, seen);
            Body::Directory
        } else if meta.is_symlink() {
            Body::Link(fs::read_link(&path).expect("a target").to_string_lossy().into_owned())
        } else if meta.is_file() {
            Body::File(fs::read(&path).expect("a readable file"))
        } else {
            Body::Other
        };
        let node = Node { body, mode: meta.mode() & 0o7777, owner: (meta.uid(), meta.gid()) };
        let times = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        seen.insert(name, (node, (meta.ino(), times.0, times.1)));
    }
}

/// Complains about every path, bar the lock, that is not exactly what and as old as it was.
pub fn disturbed(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| *path != LOCK && before.get(*path) != after.get(*path))
        .map(|path| format!("{path} was {:?}, is {:?}", before.get(path), after.get(path)))
        .collect()
}
