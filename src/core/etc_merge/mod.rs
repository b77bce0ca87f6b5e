//! Prediction of libostree's three-way merge of `/etc`. The base is `/usr/etc` of the merge deployment, the
//! local side is its `/etc`, and the other side is `/usr/etc` of the new deployment.
//!
//! Local changes win. All further rules are those of `merge_configuration_from` in libostree 2022.7 and
//! 2025.2, which differ in [`SpecialFiles`] alone; `tests/etc_merge` compares this module with the library
//! itself. Not predicted: timestamps, SELinux labels, and which of two local changes is applied last where
//! links in the new image make one path of them.

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
pub use differences::differing_paths;
pub use findings::{LostChange, LostPart, MergeConflict, MergeFindings, MergeItem};
pub use refusal::{MergeRefusal, RefusalReason};
use replay::MergeReplay;
pub use tree::{EtcBody, EtcEntries, EtcNode, FileContent, XattrDigests};

/// Treatment of a device, socket or pipe in a directory that libostree copies as a whole. Elsewhere libostree
/// ignores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialFiles {
    /// libostree refuses the merge (before 2024.2).
    Refused,
    /// libostree leaves the file out.
    Ignored,
}

/// Spell a path of a finding or refusal as an absolute path; bytes that are not UTF-8 are replaced.
#[must_use]
pub fn display_path(path: &Path) -> String {
    Path::new("/etc").join(path).to_string_lossy().trim_end_matches('/').to_owned()
}

/// Predicted result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcMerge {
    /// `/etc` of the new deployment. Refused changes are left out of it.
    pub result: EtcNode,
    /// Fate of each local change and of each change of the image.
    pub findings: MergeFindings,
}

impl EtcMerge {
    /// Predict the merge of `local` and `new`, both of which are changed from `base`.
    #[must_use]
    pub fn of(base: &EtcNode, local: &EtcNode, new: &EtcNode, special_files: SpecialFiles) -> Self {
        let changes = LocalChanges::between(base, local);
        let (result, refusals) = MergeReplay::run(&changes, local, new, special_files);
        let findings = MergeFindings::of(base, local, new, &result, refusals);
        Self { result, findings }
    }

    /// Return the new `/etc`, or the first refusal, at which libostree stops.
    pub fn outcome(&self) -> Result<&EtcNode, &MergeRefusal> {
        self.findings.refusals.first().map_or(Ok(&self.result), Err)
    }
}
