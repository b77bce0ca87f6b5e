//! Findings about a merge of `/etc`: local changes kept and lost, image changes applied, conflicts. Found by
//! comparing the four trees, so they hold for any merge algorithm.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::refusal::MergeRefusal;
use super::tree::{EtcBody, EtcEntries, EtcNode};
use crate::core::values::tree::ChangeKind;

/// Findings by outcome. Each list is sorted; paths are relative to `/etc`, and the empty path is `/etc`
/// itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeFindings {
    /// Local changes that are in the new `/etc`.
    pub kept: Vec<MergeItem>,
    /// Changes of the image that are in the new `/etc`.
    pub from_image: Vec<MergeItem>,
    /// Paths changed differently by both sides. The local change wins.
    pub conflicts: Vec<MergeConflict>,
    /// Local changes that are missing from the new `/etc`.
    pub losses: Vec<LostChange>,
    /// Changes of the image that are missing from the new `/etc`, although the path has no local change.
    /// libostree gives a directory its local mode and owner once an entry of it changed, and may copy a
    /// directory as a whole.
    pub not_taken: Vec<MergeItem>,
    /// Reasons for which libostree refuses the merge, in the order in which it finds them.
    pub refusals: Vec<MergeRefusal>,
}

/// Path that one side changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeItem {
    /// Path relative to `/etc`.
    pub path: PathBuf,
    pub change: ChangeKind,
}

/// Path that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    /// Path relative to `/etc`.
    pub path: PathBuf,
    /// Local change.
    pub local: ChangeKind,
    /// Change of the image.
    pub image: ChangeKind,
}

/// Local change that the merge loses, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostChange {
    /// Path relative to `/etc`.
    pub path: PathBuf,
    /// Local change.
    pub change: ChangeKind,
    /// Part that is lost.
    pub lost: LostPart,
}

/// Part of a local change that libostree's merge loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LostPart {
    /// Mode and owner of a directory: libostree copies them only if an entry of the directory changed.
    DirectoryAttributes,
    /// Extended attributes: libostree does not compare them.
    Xattrs,
    /// Device, socket or pipe: libostree copies none.
    SpecialFile,
    /// The whole change. The path is in a local directory that replaced a file, and the new image has a
    /// directory there as well.
    Everything,
}

/// Node at one path in each of the four trees.
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
        findings.compare(top, Path::new(""), &refused);
        findings
    }

    /// Return true if neither side changed anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn compare(&mut self, here: Four<'_>, path: &Path, refused: &BTreeSet<PathBuf>) {
        // The outcome of a refused change is unknown, and so is that of everything below it.
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
            if arrives { self.from_image.push(item) } else { self.not_taken.push(item) }
        }
        for name in here.names() {
            self.compare(here.child(name), &path.join(name), refused);
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

/// Return true if `result` equals `node`, apart from further extended attributes that a directory got from
/// the other side.
fn only_more_xattrs(node: Option<&EtcNode>, result: Option<&EtcNode>) -> bool {
    let (Some(node), Some(result)) = (node, result) else { return false };
    let has = |(name, value)| result.xattrs.get(name) == Some(value);
    node.is_directory() && node.passes_for(result) && node.xattrs.iter().all(has)
}

/// Return the part of a local change that is missing from the result; `None` where nothing is lost.
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
    // libostree copies a file or link as a whole or not at all.
    Some(if base.is_some_and(|base| base.passes_for(local)) {
        LostPart::Xattrs
    } else {
        LostPart::Everything
    })
}
