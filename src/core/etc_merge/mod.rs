//! libostree's three-way merge of `/etc`, predicted: `/usr/etc` of the merge deployment is the base, its `/etc` the
//! local side, `/usr/etc` of the new deployment the other side.
//!
//! What is changed locally wins. What libostree does beyond that was read in `merge_configuration_from` of libostree
//! 2022.7 and 2025.2, which differ in [`SpecialFiles`] alone, and is tested against the library itself
//! (`tests/etc_merge`). Not foreseen: times, labels, and which of two local changes is last where links in the new
//! image make one place of them.

mod changes;
mod differences;
mod findings;
mod refusal;
mod replay;
#[cfg(test)]
mod tests;
mod tree;

use std::path::Path;

use changes::LocalChanges;
pub use differences::unlike;
pub use findings::{LostChange, LostPart, MergeConflict, MergeFindings, MergeItem};
pub use refusal::{MergeRefusal, RefusalReason};
use replay::MergeReplay;
pub use tree::{EtcBody, EtcEntries, EtcNode, FileContent, XattrDigests};

/// What libostree does with a device, socket or pipe in a directory that it copies as a whole. Elsewhere it ignores
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialFiles {
    /// Refuses to merge: before 2024.2.
    Refused,
    /// Leaves it out.
    Ignored,
}

/// A path of a finding or a refusal as people and programs read it. What is no UTF-8 is replaced.
#[must_use]
pub fn shown(path: &Path) -> String {
    Path::new("/etc").join(path).to_string_lossy().trim_end_matches('/').to_owned()
}

/// What a merge comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcMerge {
    /// The new deployment's `/etc`; where something is refused, as it would be without that.
    pub result: EtcNode,
    /// What it means for whoever changed something.
    pub findings: MergeFindings,
}

impl EtcMerge {
    /// Merges.
    #[must_use]
    pub fn of(base: &EtcNode, local: &EtcNode, new: &EtcNode, special_files: SpecialFiles) -> Self {
        let changes = LocalChanges::between(base, local);
        let (result, refusals) = MergeReplay::run(&changes, local, new, special_files);
        let findings = MergeFindings::of(base, local, new, &result, refusals);
        Self { result, findings }
    }

    /// The new `/etc`, or the refusal that libostree meets first.
    pub fn outcome(&self) -> Result<&EtcNode, &MergeRefusal> {
        self.findings.refusals.first().map_or(Ok(&self.result), Err)
    }
}
