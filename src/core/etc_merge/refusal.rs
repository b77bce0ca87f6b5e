//! Local changes of `/etc` for which a merge is refused, each with its path and remedy.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::display_path;

/// Local change for which the merge is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRefusal {
    /// Path relative to `/etc`.
    pub path: PathBuf,
    pub reason: RefusalReason,
}

/// Reason for refusing a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RefusalReason {
    /// The path is a file, link or special file locally, and a directory in the new image.
    NewlyDirectory,
    /// The path is below a path that is not a directory in the new image.
    NotADirectory,
    /// The path is below a dangling symbolic link of the new image.
    DanglingLink,
    /// The path is below a symbolic link of the new image that leads out of `/etc`. libostree would follow it
    /// into `/usr` or the running system, so Flameholder refuses the merge itself.
    LeavingLink,
    /// The path is a device, socket or pipe in a directory that is copied as a whole; refused by libostree
    /// before 2024.2.
    SpecialFile,
}

impl fmt::Display for MergeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = display_path(&self.path);
        match self.reason {
            RefusalReason::NewlyDirectory => write!(
                f,
                "{path} is not a directory, but is one in the new image, so libostree cannot merge it; move it away, or replace it with a directory"
            ),
            RefusalReason::NotADirectory => write!(
                f,
                "{path} is a local change below a path that is not a directory in the new image, so libostree cannot merge it; undo the change, or move the files away"
            ),
            RefusalReason::DanglingLink => write!(
                f,
                "{path} is a local change below a dangling symbolic link of the new image, so libostree cannot merge it; undo the change, or move the files away"
            ),
            RefusalReason::LeavingLink => write!(
                f,
                "{path} is a local change below a symbolic link of the new image that leads out of /etc, and libostree would write outside /etc; undo the change, or move the files away"
            ),
            RefusalReason::SpecialFile => write!(
                f,
                "{path} is a device, socket or pipe in a directory that must be copied, and libostree before 2024.2 cannot copy it; remove it, or update libostree"
            ),
        }
    }
}
