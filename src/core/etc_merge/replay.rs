//! Replay of libostree's merge on the new image's `/usr/etc`, in libostree's order: locally removed paths
//! first, then modified ones, then added ones.
//!
//! Like libostree, the replay opens directories by path, and so follows symbolic links of the new image.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::SpecialFiles;
use super::changes::LocalChanges;
use super::refusal::{MergeRefusal, RefusalReason};
use super::tree::{EtcBody, EtcNode, XattrDigests, names};
use crate::core::values::tree::FileAttributes;

/// Maximum number of symbolic links in one path, as in the kernel (`MAXSYMLINKS`).
const LINKS: usize = 40;

/// State of the merge: the new `/etc` so far, and the refusals.
pub(super) struct MergeReplay<'a> {
    local: &'a EtcNode,
    special_files: SpecialFiles,
    result: EtcNode,
    refusals: Vec<MergeRefusal>,
}

/// Resolved path in the new tree; its parents contain no symbolic link.
enum Place {
    /// A node exists at this path.
    There(PathBuf),
    /// The parent directory exists, but has no entry of that name.
    Vacant(PathBuf),
    /// A parent directory is missing.
    Nowhere,
}

impl<'a> MergeReplay<'a> {
    /// Apply all changes. A refused one is skipped, so that all refusals are found.
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

    /// Remove a path, as `glnx_shutil_rm_rf_at` does; a missing one is no error.
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

    /// Copy a modified or added path, as `copy_modified_config_file` does.
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
            // libostree assumes that the directory was copied with its entries, or that each change below it
            // is listed. Neither is true where a local directory replaced a file.
            Some(new) if new.is_directory() => return Ok(()),
            Some(_) => self.take(&place),
            None => {}
        }
        match &local.body {
            // libostree does not copy it, but has removed the image's file by now.
            EtcBody::Special(_) => {}
            EtcBody::Directory(_) => {
                let copy = self.copy_of(path, local);
                self.put(&place, copy);
            }
            EtcBody::File(_) | EtcBody::Symlink(_) => self.put(&place, local.clone()),
        }
        Ok(())
    }

    /// Copy a whole local directory, changed or not, as `copy_dir_recurse` does.
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

    /// Create a parent directory, as `ensure_directory_from_template` does: it gets mode, owner and extended
    /// attributes of the local one even if the image has it; its own parents get them only if they are
    /// missing.
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

    /// Resolve a path in the new tree as the kernel does, and follow a link at its end if `follow` is set.
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

/// Split a link's target into the steps from the link's own directory.
fn steps(target: &Path) -> Result<Vec<OsString>, RefusalReason> {
    let mut steps = Vec::new();
    for component in target.components() {
        match component {
            Component::Normal(name) => steps.push(name.to_owned()),
            Component::ParentDir => steps.push("..".into()),
            Component::CurDir => {}
            // An absolute link leads into the running system, even while libostree works on another sysroot.
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
