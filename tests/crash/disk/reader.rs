//! Reader of the live tree during a change: each path must be the old or the new one, whole, and no link may
//! be dangling.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use memory_disk::{Body, Image, Inode, Number, Rights, TOP};

use crate::case::Case;

/// Files of the engine while a change is open; they are checked after recovery.
const OURS: [&str; 2] = ["/var/lib/flameholder/journal", "/var/lib/flameholder/journal.new"];
const STAGING: &str = ".flameholder.d";

/// Inodes by path, without the names in directories.
type Paths = BTreeMap<String, (Number, Inode)>;

/// Reader that knows the tree before and after.
pub(crate) struct Reader {
    old: Paths,
    new: Paths,
    /// Links of either tree: true if the link resolves there.
    led: [BTreeMap<String, bool>; 2],
}

impl Reader {
    pub(crate) fn new(case: &Case) -> Self {
        let [(old, led_old), (new, led_new)] = [&case.image, &case.done].map(|image| {
            let paths = paths(image);
            let links = paths.iter().filter(|(_, (_, inode))| matches!(inode.body, Body::Symlink(_)));
            let led = links.map(|(path, _)| (path.clone(), leads(image, path))).collect();
            (paths, led)
        });
        Self { old, new, led: [led_old, led_new] }
    }

    /// Complaints about paths that are neither the old nor the new one.
    pub(crate) fn complaints(&self, image: &Image) -> Vec<String> {
        let now = paths(image);
        let mut wrong = Vec::new();
        for (path, (_, inode)) in &now {
            if !self.is_known(path, inode) {
                wrong.push(format!("{path} is a mixture of old and new: {inode:?}"));
            }
            if matches!(inode.body, Body::Symlink(_)) && self.should_lead(path, inode) && !leads(image, path)
            {
                wrong.push(format!("{path} is a dangling link: {inode:?}"));
            }
        }
        for path in self.old.keys().filter(|path| self.stays(path) && !now.contains_key(*path)) {
            wrong.push(format!("{path} is gone"));
        }
        wrong
    }

    /// A directory may have the mode of one and the owner of the other: no single call sets both.
    fn is_known(&self, path: &str, now: &Inode) -> bool {
        let sides: Vec<&Inode> =
            [&self.old, &self.new].iter().filter_map(|side| side.get(path)).map(|(_, inode)| inode).collect();
        let same = |side: &&Inode| {
            side.body == now.body && side.attributes == now.attributes && side.label == now.label
        };
        let torn = |rights: Rights| {
            let owner =
                |side: &&Inode| (side.attributes.uid, side.attributes.gid) == (rights.uid, rights.gid);
            sides.iter().any(|side| side.attributes.mode == rights.mode) && sides.iter().any(owner)
        };
        let is_directory = |inode: &Inode| matches!(inode.body, Body::Directory(_));
        sides.iter().any(same)
            || sides.len() == 2
                && sides.iter().all(|side| is_directory(side))
                && is_directory(now)
                && torn(now.attributes)
    }

    /// True if a path must exist throughout, because it is in both trees. If a directory and a file or link
    /// replace each other, there is a moment without either: the one must be empty and removed first.
    fn stays(&self, path: &str) -> bool {
        let is_directory = |side: &Paths| Some(matches!(side.get(path)?.1.body, Body::Directory(_)));
        self.new.contains_key(path) && is_directory(&self.old) == is_directory(&self.new)
    }

    /// True if a link equal to that of a tree must resolve: it resolves in each tree that has it.
    fn should_lead(&self, path: &str, now: &Inode) -> bool {
        let sides = [&self.old, &self.new].into_iter().zip(&self.led);
        let same = sides.filter(|(side, _)| side.get(path).is_some_and(|(_, inode)| inode.body == now.body));
        same.map(|(_, led)| led.get(path) == Some(&true)).reduce(|one, other| one && other).unwrap_or(false)
    }
}

fn paths(image: &Image) -> Paths {
    let (mut found, mut pending) = (Paths::new(), vec![(String::new(), TOP)]);
    while let Some((directory, number)) = pending.pop() {
        for (name, number) in image.names(number).into_iter().flatten() {
            let path = format!("{directory}/{name}");
            if &**name == STAGING || OURS.contains(&path.as_str()) {
                continue;
            }
            let inode = image.inode(*number);
            let body = match &inode.body {
                Body::Directory(_) => Body::Directory(BTreeMap::new()),
                other => other.clone(),
            };
            if let Body::Directory(_) = body {
                pending.push((path.clone(), *number));
            }
            found.insert(path, (*number, Inode { body, ..inode.clone() }));
        }
    }
    found
}

/// True if `path` resolves on a system that has the tree as its root.
fn leads(image: &Image, path: &str) -> bool {
    let mut names: VecDeque<Arc<str>> = path.split('/').map(Arc::from).collect();
    let (mut entered, mut links): (Vec<Number>, usize) = (vec![TOP], 0);
    while let Some(name) = names.pop_front() {
        match &*name {
            "" | "." => continue,
            ".." => {
                if entered.len() > 1 {
                    entered.pop();
                }
                continue;
            }
            // Kernel file systems (`/dev`) always exist.
            "dev" if entered.len() == 1 => return true,
            _ => {}
        }
        let Some(next) = image.entry(entered[entered.len() - 1], &name) else { return false };
        match &image.inode(next).body {
            Body::Symlink(target) => {
                links += 1;
                if links > 40 {
                    return false;
                }
                if target.starts_with('/') {
                    entered.truncate(1);
                }
                for name in target.split('/').rev() {
                    names.push_front(name.into());
                }
            }
            _ => entered.push(next),
        }
    }
    true
}
