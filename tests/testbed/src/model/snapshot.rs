//! Snapshot of a tree, and the comparison of two snapshots.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fmt, fs};

/// The only file that a command without changes may write.
pub const LOCK: &str = "var/lib/flameholder/lock";

/// History of the host and its next version. It grows with each change, has the time in it, and nothing decides by it, so
/// that no snapshot has it.
const HISTORY: [&str; 2] = ["var/lib/flameholder/history", "var/lib/flameholder/.history.new"];

/// Type and content of a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// Regular file with its content.
    File(Vec<u8>),
    /// Symbolic link with its target.
    Link(String),
    Directory,
    /// Socket, pipe or device.
    Other,
}

/// Attributes of a path that a config can determine.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    pub body: Body,
    /// Permission bits.
    pub mode: u32,
    /// UID and GID.
    pub owner: (u32, u32),
}

/// Inode, modification time and change time, in seconds and nanoseconds: they tell an unchanged path from one
/// rewritten with equal content.
pub type Stamp = (u64, (i64, i64), (i64, i64));

/// Every path below a root, relative to it; links are not followed.
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

/// Take a snapshot of everything below `root` but the history.
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
        if HISTORY.contains(&name.as_str()) {
            continue;
        }
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

/// Complaints about every path, except the lock, whose content, attributes or stamp changed.
pub fn changes(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| *path != LOCK && before.get(*path) != after.get(*path))
        .map(|path| format!("{path} was {:?}, is {:?}", before.get(path), after.get(path)))
        .collect()
}
