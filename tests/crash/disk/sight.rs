//! Conversion between a real tree, an image, and the visible attributes of both.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flameholder::core::values::names::ManagedPath;
use memory_disk::{Body, Edit, Image, Inode, Number, Rights, TOP};
use rustix::fs::XattrFlags;
use testbed::model::snapshot::{self, Node, Snapshot};

/// Extended attribute of a SELinux label.
const LABEL: &str = "security.selinux";

/// Attributes of a path that must be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub node: Node,
    pub label: Option<Arc<[u8]>>,
    /// First path of the same file, if it has several hard links.
    pub twin: Option<String>,
}

/// Attributes by path, without the leading slash.
pub(crate) type Sight = BTreeMap<String, Seen>;

/// Load an image of the tree at `root`, with other file systems mounted at `mounts`.
pub(crate) fn load(root: &Path, mounts: &[&str]) -> Image {
    let mounts: Vec<ManagedPath> = mounts.iter().map(|path| ManagedPath::constant(path)).collect();
    let mut loading = Loading { image: Image::new(rights(root), &mounts), known: BTreeMap::new() };
    loading.label(root, TOP);
    loading.descend(root, "", TOP);
    loading.image
}

struct Loading {
    image: Image,
    /// Inode numbers of the image by real inode.
    known: BTreeMap<u64, Number>,
}

impl Loading {
    fn descend(&mut self, at: &Path, spelled: &str, directory: Number) {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(at).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
        entries.sort();
        for at in entries {
            let name = at.file_name().expect("a name").to_str().expect("UTF-8");
            let spelled = format!("{spelled}/{name}");
            let place = (directory, name.into());
            let meta = at.symlink_metadata().expect("a status");
            if let Some(number) = self.known.get(&meta.ino()) {
                self.image.apply(&Edit::Link { place, number: *number, fresh: None });
                continue;
            }
            let number = self.image.unused();
            self.known.insert(meta.ino(), number);
            let is_mount = self.image.mounts.iter().position(|mount| mount.as_str() == spelled);
            let volume = is_mount.map_or(self.image.inode(directory).volume, |index| index + 1);
            let fresh = Inode { body: body(&at), attributes: rights(&at), label: None, volume, names: 1 };
            self.image.apply(&Edit::Link { place, number, fresh: Some(fresh) });
            self.label(&at, number);
            if meta.is_dir() {
                self.descend(&at, &spelled, number);
            }
        }
    }

    fn label(&mut self, at: &Path, number: Number) {
        let mut label = Vec::with_capacity(256);
        let spare = rustix::buffer::spare_capacity(&mut label);
        if rustix::fs::lgetxattr(at, LABEL, spare).is_ok() {
            self.image.apply(&Edit::Label { number, label: label.into() });
        }
    }
}

fn rights(at: &Path) -> Rights {
    let meta = at.symlink_metadata().expect("a status");
    Rights { mode: meta.mode() & 0o7777, uid: meta.uid(), gid: meta.gid() }
}

fn body(at: &Path) -> Body {
    let meta = at.symlink_metadata().expect("a status");
    if meta.is_dir() {
        return Body::Directory(BTreeMap::new());
    }
    if meta.is_symlink() {
        let target = fs::read_link(at).expect("a target");
        return Body::Symlink(target.to_str().expect("UTF-8").into());
    }
    assert!(meta.is_file(), "{} is a special file", at.display());
    Body::File(fs::read(at).expect("a readable file").into())
}

/// Every path of `image` and its attributes.
pub(crate) fn see(image: &Image) -> Sight {
    let (mut seen, mut first) = (Sight::new(), BTreeMap::new());
    let mut pending = vec![(String::new(), TOP)];
    while let Some((directory, number)) = pending.pop() {
        for (name, number) in image.names(number).into_iter().flatten() {
            let path = if directory.is_empty() { name.to_string() } else { format!("{directory}/{name}") };
            let inode = image.inode(*number);
            if inode.names > 1 {
                first.entry(*number).or_insert_with(Vec::new).push(path.clone());
            }
            if let Body::Directory(_) = inode.body {
                pending.push((path.clone(), *number));
            }
            seen.insert(path, Seen { node: node(inode), label: inode.label.clone(), twin: None });
        }
    }
    for mut paths in first.into_values() {
        paths.sort();
        for path in &paths {
            seen.get_mut(path).expect("every path of the inode is listed").twin = paths.first().cloned();
        }
    }
    seen
}

fn node(inode: &Inode) -> Node {
    let Rights { mode, uid, gid } = inode.attributes;
    let body = match &inode.body {
        Body::File(bytes) => snapshot::Body::File(bytes.to_vec()),
        Body::Symlink(target) => snapshot::Body::Link(target.to_string()),
        Body::Directory(_) => snapshot::Body::Directory,
    };
    Node { body, mode, owner: (uid, gid) }
}

/// The same paths in the form of the model's snapshot, without times.
pub(crate) fn untimed(sight: &Sight) -> Snapshot {
    let nodes = sight.iter().map(|(path, seen)| (path.clone(), (seen.node.clone(), Default::default())));
    nodes.collect()
}

/// Complaints about every path that differs.
pub(crate) fn differences(is: &Sight, wanted: &Sight) -> Vec<String> {
    let mut paths: Vec<&String> = is.keys().chain(wanted.keys()).collect();
    paths.sort();
    paths.dedup();
    let differs = paths.into_iter().filter(|path| is.get(*path) != wanted.get(*path));
    differs.map(|path| format!("/{path} is {:?}, expected {:?}", is.get(path), wanted.get(path))).collect()
}

/// Label every path in the tree at `root` by its top directory, and some files differently, as a policy
/// would.
pub(crate) fn label(root: &Path) {
    for (path, (node, _)) in snapshot::take(root) {
        let top = path.split('/').next().unwrap_or_default();
        let kind = match path.as_str() {
            "etc/shadow" | "etc/admin.conf" | "etc/chrony.conf" => "own",
            _ if node.body == snapshot::Body::Directory => "directory",
            _ => "leaf",
        };
        let label = format!("system_u:object_r:{top}_{kind}_t:s0\0");
        let at = root.join(&path);
        let labelled = rustix::fs::lsetxattr(&at, LABEL, label.as_bytes(), XattrFlags::empty());
        labelled.expect("TMPDIR is on a file system without SELinux labels: set TMPDIR to one with labels");
    }
}
