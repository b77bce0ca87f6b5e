//! What a merge keeps, takes over and loses: found by comparing its four trees, whatever made the result so.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::refusal::MergeRefusal;
use super::tree::{EtcBody, EtcEntries, EtcNode};
use crate::core::values::change::ChangeKind;

/// Paths by what becomes of them, each list sorted, relative to `/etc`; the empty path is `/etc` itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeFindings {
    /// Local changes that the new `/etc` has.
    pub kept: Vec<MergeItem>,
    /// Changes of the image that the new `/etc` has.
    pub from_image: Vec<MergeItem>,
    /// Changed on both sides, and not alike. The local side wins.
    pub conflicts: Vec<MergeConflict>,
    /// Local changes that the new `/etc` does not have.
    pub losses: Vec<LostChange>,
    /// Changes of the image that the new `/etc` does not have, though nobody changed the same path: libostree gives
    /// a directory its local mode and owner when something in it changed, and may copy it as a whole.
    pub held_back: Vec<MergeItem>,
    /// What keeps libostree from merging, in the order in which it meets it.
    pub refusals: Vec<MergeRefusal>,
}

/// A path that one side changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeItem {
    /// Relative to `/etc`.
    pub path: PathBuf,
    /// How.
    pub change: ChangeKind,
}

/// A path that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    /// Relative to `/etc`.
    pub path: PathBuf,
    /// How it was changed locally.
    pub local: ChangeKind,
    /// How the image changed it.
    pub image: ChangeKind,
}

/// A local change that gets lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostChange {
    /// Relative to `/etc`.
    pub path: PathBuf,
    /// How it was changed locally.
    pub change: ChangeKind,
    /// What of it gets lost.
    pub lost: LostPart,
}

/// What gets lost of a local change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LostPart {
    /// Mode and owner of a directory: libostree copies them only along with a change inside.
    DirectoryAttributes,
    /// Extended attributes: libostree does not look at them.
    Xattrs,
    /// A device, socket or pipe: libostree copies none.
    SpecialFile,
    /// All of it: it is in a directory that was no directory before, and that the image made one as well.
    Everything,
}

/// The same path in all trees.
#[derive(Clone, Copy)]
struct Four<'a> {
    base: Option<&'a EtcNode>,
    local: Option<&'a EtcNode>,
    new: Option<&'a EtcNode>,
    result: Option<&'a EtcNode>,
}

impl MergeFindings {
    pub(super) fn of(
        base: &EtcNode,
        local: &EtcNode,
        new: &EtcNode,
        result: &EtcNode,
        refusals: Vec<MergeRefusal>,
    ) -> Self {
        let mut findings = Self { refusals, ..Self::default() };
        let refused: BTreeSet<PathBuf> =
            findings.refusals.iter().map(|refusal| refusal.path.clone()).collect();
        let top = Four { base: Some(base), local: Some(local), new: Some(new), result: Some(result) };
        findings.look(top, Path::new(""), &refused);
        findings
    }

    /// Whether neither side changed anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn look(&mut self, here: Four<'_>, path: &Path, refused: &BTreeSet<PathBuf>) {
        // What would become of a refused change is not known, nor of what lies below.
        if refused.contains(path) {
            return;
        }
        let Four { base, local, new, result } = here;
        let (by_hand, by_image) = (change(base, local), change(base, new));
        if let Some(change) = by_hand {
            if let Some(lost) = lost(here) {
                self.losses.push(LostChange { path: path.to_owned(), change, lost });
            } else if let (Some(image), false) = (by_image, alike(local, new)) {
                self.conflicts.push(MergeConflict { path: path.to_owned(), local: change, image });
            } else {
                self.kept.push(MergeItem { path: path.to_owned(), change });
            }
        } else if let Some(change) = by_image {
            let item = MergeItem { path: path.to_owned(), change };
            let arrives = alike(new, result) || only_more_xattrs(new, result);
            if arrives { self.from_image.push(item) } else { self.held_back.push(item) }
        }
        for name in here.names() {
            self.look(here.child(name), &path.join(name), refused);
        }
    }
}

impl<'a> Four<'a> {
    fn all(self) -> [Option<&'a EtcNode>; 4] {
        [self.base, self.local, self.new, self.result]
    }

    fn names(self) -> BTreeSet<&'a OsStr> {
        let entries = self.all().into_iter().flatten().filter_map(EtcNode::entries);
        entries.flat_map(EtcEntries::keys).map(AsRef::as_ref).collect()
    }

    fn child(self, name: &OsStr) -> Self {
        let [base, local, new, result] = self.all().map(|node| node?.entries()?.get(name));
        Self { base, local, new, result }
    }
}

fn change(from: Option<&EtcNode>, to: Option<&EtcNode>) -> Option<ChangeKind> {
    match (from, to) {
        (None, None) => None,
        (None, Some(_)) => Some(ChangeKind::Add),
        (Some(_), None) => Some(ChangeKind::Remove),
        (Some(from), Some(to)) => (!from.is_like(to)).then_some(ChangeKind::Modify),
    }
}

fn alike(one: Option<&EtcNode>, other: Option<&EtcNode>) -> bool {
    change(one, other).is_none()
}

/// Whether `result` is `node` but for extended attributes that a directory has from the other side as well.
fn only_more_xattrs(node: Option<&EtcNode>, result: Option<&EtcNode>) -> bool {
    let (Some(node), Some(result)) = (node, result) else { return false };
    let has = |(name, value)| result.xattrs.get(name) == Some(value);
    node.is_directory() && node.passes_for(result) && node.xattrs.iter().all(has)
}

/// What of a local change is not in the result.
fn lost(Four { base, local, result, .. }: Four<'_>) -> Option<LostPart> {
    let stays = |base: &EtcNode, result: &EtcNode, local: &EtcNode| {
        base.xattrs.keys().any(|name| result.xattrs.contains_key(name) && !local.xattrs.contains_key(name))
    };
    if alike(local, result) {
        return None;
    }
    if only_more_xattrs(local, result) {
        let (base, result, local) = (base?, result?, local?);
        return stays(base, result, local).then_some(LostPart::Xattrs);
    }
    let Some(local) = local else { return Some(LostPart::Everything) };
    if matches!(local.body, EtcBody::Special(_)) {
        return Some(LostPart::SpecialFile);
    }
    let Some(result) = result.filter(|result| result.kind() == local.kind()) else {
        return Some(LostPart::Everything);
    };
    if local.is_directory() {
        let only_xattrs = base.is_some_and(|base| base.passes_for(local)) || local.passes_for(result);
        return Some(if only_xattrs { LostPart::Xattrs } else { LostPart::DirectoryAttributes });
    }
    // A file or link is copied as a whole or not at all.
    Some(if base.is_some_and(|base| base.passes_for(local)) {
        LostPart::Xattrs
    } else {
        LostPart::Everything
    })
}
