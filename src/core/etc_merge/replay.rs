//! What libostree's merge does to the new `/etc`, step by step and with its order of steps: first what was
//! removed locally, then what was modified, then what was added.
//!
//! It opens directories by path and follows links in the new image's tree while doing so.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::SpecialFiles;
use super::changes::Changes;
use super::refusal::{Reason, Refusal};
use super::tree::{Body, Node, Xattrs, names};
use crate::core::values::tree::Attributes;

/// As many links as the kernel follows in one path.
const LINKS: usize = 40;

/// The new `/etc` so far.
pub(super) struct Replay<'a> {
    local: &'a Node,
    special_files: SpecialFiles,
    result: Node,
    refusals: Vec<Refusal>,
}

/// What a path in the new tree leads to: a place without links in its parents.
enum Place {
    /// Something stands there.
    There(PathBuf),
    /// Its directory is there, and nothing of that name in it.
    Vacant(PathBuf),
    /// Something above it is missing.
    Nowhere,
}

impl<'a> Replay<'a> {
    /// Carries all changes out. What is refused is left out, so that every refusal is found.
    pub(super) fn run(
        changes: &Changes,
        local: &'a Node,
        new: &Node,
        special_files: SpecialFiles,
    ) -> (Node, Vec<Refusal>) {
        let mut replay = Self { local, special_files, result: new.clone(), refusals: Vec::new() };
        for path in &changes.removed {
            let done = replay.remove(path);
            replay.note(path, done);
        }
        for path in changes.modified.iter().chain(&changes.added) {
            let done = replay.copy(path);
            replay.note(path, done);
        }
        (replay.result, replay.refusals)
    }

    fn note(&mut self, path: &Path, done: Result<(), Reason>) {
        if let Err(reason) = done {
            self.refusals.push(Refusal { path: path.to_owned(), reason });
        }
    }

    /// `glnx_shutil_rm_rf_at`: what is missing is fine.
    fn remove(&mut self, path: &Path) -> Result<(), Reason> {
        if let Place::There(place) = self.find(path, false)? {
            self.take(&place);
        }
        Ok(())
    }

    fn take(&mut self, place: &Path) {
        let parent = place.parent().unwrap_or(Path::new(""));
        let entries = self.result.at_mut(parent).and_then(Node::entries_mut);
        if let (Some(entries), Some(name)) = (entries, place.file_name()) {
            entries.remove(name);
        }
    }

    fn put(&mut self, place: &Path, node: Node) {
        let parent = place.parent().unwrap_or(Path::new(""));
        let entries = self.result.at_mut(parent).and_then(Node::entries_mut);
        if let (Some(entries), Some(name)) = (entries, place.file_name()) {
            entries.insert(name.to_owned(), node);
        }
    }

    /// `copy_modified_config_file`.
    fn copy(&mut self, path: &Path) -> Result<(), Reason> {
        let (Some(name), Some(local)) = (path.file_name(), self.local.at(path)) else { return Ok(()) };
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => self.ensure_directory(parent)?,
            _ => PathBuf::new(),
        };
        let place = parent.join(name);
        match self.result.at(&place) {
            Some(new) if new.is_directory() && !local.is_directory() => return Err(Reason::NewlyDirectory),
            // libostree assumes that it has copied what is in there, or that each change in there is listed. Where a
            // local directory took the place of a file, neither holds.
            Some(new) if new.is_directory() => return Ok(()),
            Some(_) => self.take(&place),
            None => {}
        }
        match &local.body {
            // Ignored, after what the image has there is gone.
            Body::Special(_) => {}
            Body::Directory(_) => {
                let copy = self.copy_of(path, local);
                self.put(&place, copy);
            }
            Body::File(_) | Body::Symlink(_) => self.put(&place, local.clone()),
        }
        Ok(())
    }

    /// `copy_dir_recurse`: all of a local directory, changed or not.
    fn copy_of(&mut self, path: &Path, local: &Node) -> Node {
        let Some(entries) = local.entries() else { return local.clone() };
        let mut kept = BTreeMap::new();
        for (name, child) in entries {
            if !matches!(child.body, Body::Special(_)) {
                kept.insert(name.clone(), self.copy_of(&path.join(name), child));
            } else if self.special_files == SpecialFiles::Refused {
                let refusal = Refusal { path: path.join(name), reason: Reason::SpecialFile };
                if !self.refusals.contains(&refusal) {
                    self.refusals.push(refusal);
                }
            }
        }
        Node { attributes: local.attributes, xattrs: local.xattrs.clone(), body: Body::Directory(kept) }
    }

    /// `ensure_directory_from_template`: the directory gets the local one's mode, owner and attributes even where
    /// the image has it; those above it only where they are missing.
    fn ensure_directory(&mut self, path: &Path) -> Result<PathBuf, Reason> {
        match self.find(path, false)? {
            Place::There(_) => {}
            Place::Vacant(place) => self.put(&place, empty_directory()),
            Place::Nowhere => {
                let parent = path.parent().filter(|parent| *parent != Path::new(""));
                let parent = self.ensure_directory(parent.ok_or(Reason::DanglingLink)?)?;
                let name = path.file_name().unwrap_or_default();
                self.put(&parent.join(name), empty_directory());
            }
        }
        let Place::There(place) = self.find(path, true)? else { return Err(Reason::DanglingLink) };
        let (Some(target), Some(template)) = (self.result.at_mut(&place), self.local.at(path)) else {
            return Ok(place);
        };
        if !target.is_directory() {
            return Err(Reason::NotADirectory);
        }
        target.attributes = template.attributes;
        target.xattrs.extend(template.xattrs.clone());
        Ok(place)
    }

    /// Resolves a path in the new tree as the kernel does; `follow` says whether a link at its end is followed.
    fn find(&self, path: &Path, follow: bool) -> Result<Place, Reason> {
        let mut rest: VecDeque<OsString> = names(path).map(OsString::from).collect();
        let (mut here, mut links) = (PathBuf::new(), 0);
        while let Some(name) = rest.pop_front() {
            let directory = self.result.at(&here).and_then(Node::entries).ok_or(Reason::NotADirectory)?;
            if name == ".." {
                if !here.pop() {
                    return Err(Reason::LeavingLink);
                }
                continue;
            }
            let Some(next) = directory.get(&name) else {
                return Ok(if rest.is_empty() { Place::Vacant(here.join(name)) } else { Place::Nowhere });
            };
            match &next.body {
                Body::Symlink(target) if follow || !rest.is_empty() => {
                    links += 1;
                    if links > LINKS {
                        return Err(Reason::DanglingLink);
                    }
                    for component in steps(Path::new(target))?.into_iter().rev() {
                        rest.push_front(component);
                    }
                }
                _ => here.push(name),
            }
        }
        Ok(Place::There(here))
    }
}

/// The steps that a link's target takes from its own directory.
fn steps(target: &Path) -> Result<Vec<OsString>, Reason> {
    let mut steps = Vec::new();
    for component in target.components() {
        match component {
            Component::Normal(name) => steps.push(name.to_owned()),
            Component::ParentDir => steps.push("..".into()),
            Component::CurDir => {}
            // Absolute: to the system that runs, whatever sysroot is worked on.
            Component::RootDir | Component::Prefix(_) => return Err(Reason::LeavingLink),
        }
    }
    Ok(steps)
}

fn empty_directory() -> Node {
    Node {
        attributes: Attributes { mode: 0o700, uid: 0, gid: 0 },
        xattrs: Xattrs::new(),
        body: Body::Directory(BTreeMap::new()),
    }
}
