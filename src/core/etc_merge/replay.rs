//! What libostree's merge does to the new `/etc`, step by step and with its order of steps: first what was
//! removed locally, then what was modified, then what was added.
//!
//! It opens directories by path and follows links in the new image's tree while doing so.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::SpecialFiles;
use super::changes::LocalChanges;
use super::refusal::{MergeRefusal, RefusalReason};
use super::tree::{EtcBody, EtcNode, XattrDigests, names};
use crate::core::values::tree::FileAttributes;

/// As many links as the kernel follows in one path.
const LINKS: usize = 40;

/// The new `/etc` so far.
pub(super) struct MergeReplay<'a> {
    local: &'a EtcNode,
    special_files: SpecialFiles,
    result: EtcNode,
    refusals: Vec<MergeRefusal>,
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

impl<'a> MergeReplay<'a> {
    /// Carries all changes out. What is refused is left out, so that every refusal is found.
    pub(super) fn run(
        changes: &LocalChanges,
        local: &'a EtcNode,
        new: &EtcNode,
        special_files: SpecialFiles,
    ) -> (EtcNode, Vec<MergeRefusal>) {
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

    fn note(&mut self, path: &Path, done: Result<(), RefusalReason>) {
        if let Err(reason) = done {
            self.refusals.push(MergeRefusal { path: path.to_owned(), reason });
        }
    }

    /// `glnx_shutil_rm_rf_at`: what is missing is fine.
    fn remove(&mut self, path: &Path) -> Result<(), RefusalReason> {
        if let Place::There(place) = self.find(path, false)? {
            self.take(&place);
        }
        Ok(())
    }

    fn take(&mut self, place: &Path) {
        let parent = place.parent().unwrap_or(Path::new(""));
        let entries = self.result.at_mut(parent).and_then(EtcNode::entries_mut);
        if let (Some(entries), Some(name)) = (entries, place.file_name()) {
            entries.remove(name);
        }
    }

    fn put(&mut self, place: &Path, node: EtcNode) {
        let parent = place.parent().unwrap_or(Path::new(""));
        let entries = self.result.at_mut(parent).and_then(EtcNode::entries_mut);
        if let (Some(entries), Some(name)) = (entries, place.file_name()) {
            entries.insert(name.to_owned(), node);
        }
    }

    /// `copy_modified_config_file`.
    fn copy(&mut self, path: &Path) -> Result<(), RefusalReason> {
        let (Some(name), Some(local)) = (path.file_name(), self.local.at(path)) else { return Ok(()) };
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => self.ensure_directory(parent)?,
            _ => PathBuf::new(),
        };
        let place = parent.join(name);
        match self.result.at(&place) {
            Some(new) if new.is_directory() && !local.is_directory() => {
                return Err(RefusalReason::NewlyDirectory);
            }
            // libostree assumes that it has copied what is in there, or that each change in there is listed. Where a
            // local directory took the place of a file, neither holds.
            Some(new) if new.is_directory() => return Ok(()),
            Some(_) => self.take(&place),
            None => {}
        }
        match &local.body {
            // Ignored, after what the image has there is gone.
            EtcBody::Special(_) => {}
            EtcBody::Directory(_) => {
                let copy = self.copy_of(path, local);
                self.put(&place, copy);
            }
            EtcBody::File(_) | EtcBody::Symlink(_) => self.put(&place, local.clone()),
        }
        Ok(())
    }

    /// `copy_dir_recurse`: all of a local directory, changed or not.
    fn copy_of(&mut self, path: &Path, local: &EtcNode) -> EtcNode {
        let Some(entries) = local.entries() else { return local.clone() };
        let mut kept = BTreeMap::new();
        for (name, child) in entries {
            if !matches!(child.body, EtcBody::Special(_)) {
                kept.insert(name.clone(), self.copy_of(&path.join(name), child));
            } else if self.special_files == SpecialFiles::Refused {
                let refusal = MergeRefusal { path: path.join(name), reason: RefusalReason::SpecialFile };
                if !self.refusals.contains(&refusal) {
                    self.refusals.push(refusal);
                }
            }
        }
        EtcNode { attributes: local.attributes, xattrs: local.xattrs.clone(), body: EtcBody::Directory(kept) }
    }

    /// `ensure_directory_from_template`: the directory gets the local one's mode, owner and attributes even where
    /// the image has it; those above it only where they are missing.
    fn ensure_directory(&mut self, path: &Path) -> Result<PathBuf, RefusalReason> {
        match self.find(path, false)? {
            Place::There(_) => {}
            Place::Vacant(place) => self.put(&place, empty_directory()),
            Place::Nowhere => {
                let parent = path.parent().filter(|parent| *parent != Path::new(""));
                let parent = self.ensure_directory(parent.ok_or(RefusalReason::DanglingLink)?)?;
                let name = path.file_name().unwrap_or_default();
                self.put(&parent.join(name), empty_directory());
            }
        }
        let Place::There(place) = self.find(path, true)? else { return Err(RefusalReason::DanglingLink) };
        let (Some(target), Some(template)) = (self.result.at_mut(&place), self.local.at(path)) else {
            return Ok(place);
        };
        if !target.is_directory() {
            return Err(RefusalReason::NotADirectory);
        }
        target.attributes = template.attributes;
        target.xattrs.extend(template.xattrs.clone());
        Ok(place)
    }

    /// Resolves a path in the new tree as the kernel does; `follow` says whether a link at its end is followed.
    fn find(&self, path: &Path, follow: bool) -> Result<Place, RefusalReason> {
        let mut rest: VecDeque<OsString> = names(path).map(OsString::from).collect();
        let (mut here, mut links) = (PathBuf::new(), 0);
        while let Some(name) = rest.pop_front() {
            let directory =
                self.result.at(&here).and_then(EtcNode::entries).ok_or(RefusalReason::NotADirectory)?;
            if name == ".." {
                if !here.pop() {
                    return Err(RefusalReason::LeavingLink);
                }
                continue;
            }
            let Some(next) = directory.get(&name) else {
                return Ok(if rest.is_empty() { Place::Vacant(here.join(name)) } else { Place::Nowhere });
            };
            match &next.body {
                EtcBody::Symlink(target) if follow || !rest.is_empty() => {
                    links += 1;
                    if links > LINKS {
                        return Err(RefusalReason::DanglingLink);
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
fn steps(target: &Path) -> Result<Vec<OsString>, RefusalReason> {
    let mut steps = Vec::new();
    for component in target.components() {
        match component {
            Component::Normal(name) => steps.push(name.to_owned()),
            Component::ParentDir => steps.push("..".into()),
            Component::CurDir => {}
            // Absolute: to the system that runs, whatever sysroot is worked on.
            Component::RootDir | Component::Prefix(_) => return Err(RefusalReason::LeavingLink),
        }
    }
    Ok(steps)
}

fn empty_directory() -> EtcNode {
    EtcNode {
        attributes: FileAttributes { mode: 0o700, uid: 0, gid: 0 },
        xattrs: XattrDigests::new(),
        body: EtcBody::Directory(BTreeMap::new()),
    }
}
