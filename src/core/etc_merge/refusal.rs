//! Merges that do not happen, each with the path and the way out.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::shown;

/// A local change that keeps libostree from merging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRefusal {
    /// The path, relative to `/etc`.
    pub path: PathBuf,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a merge is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusalReason {
    /// A local file, link or special file stands where the new image has a directory.
    NewlyDirectory,
    /// A local change lies below what is no directory in the new image.
    NotADirectory,
    /// A local change lies below what is a symbolic link to nothing in the new image.
    DanglingLink,
    /// A local change lies below what is a symbolic link out of `/etc` in the new image. libostree would follow it,
    /// to files of the image or of the system that runs: this refusal is ours.
    LeavingLink,
    /// A directory that is copied as a whole holds a device, socket or pipe. libostree refuses that before 2024.2.
    SpecialFile,
}

impl fmt::Display for MergeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = shown(&self.path);
        match self.reason {
            RefusalReason::NewlyDirectory => write!(
                f,
                "{path} is no directory and is one in the new image, which libostree does not merge; move it away, or make it a directory"
            ),
            RefusalReason::NotADirectory => write!(
                f,
                "{path} is a local change below what is no directory in the new image, which libostree does not merge; undo the change, or move the files away"
            ),
            RefusalReason::DanglingLink => write!(
                f,
                "{path} is a local change below what is a link to nothing in the new image, which libostree does not merge; undo the change, or move the files away"
            ),
            RefusalReason::LeavingLink => write!(
                f,
                "{path} is a local change below what is a link out of /etc in the new image, and libostree would change what it leads to; undo the change, or move the files away"
            ),
            RefusalReason::SpecialFile => write!(
                f,
                "{path} is a device, socket or pipe in a directory that has to be copied, which this libostree does not do; remove it, or update libostree to 2024.2"
            ),
        }
    }
}
