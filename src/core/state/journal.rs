//! Journal of one live transaction: the moves that change the tree, how to undo each, and the point that the
//! transaction reached.
//!
//! The file is a log of checksummed lines. The first line is the intent; it is durable before the first
//! change becomes visible. Each later line records a point that was reached; it is durable before the
//! transaction goes on. A last line without its line end counts as never written. Any other damage is
//! refused, because recovery from a misread journal would overwrite the very files that the journal protects.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::core::state::log_line;
use crate::core::state::log_line::FirstLineError;
use crate::core::state::own_document::{UpgradeStep, next_schema};
use crate::core::state::service_action::ServiceAction;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{ContentDigest, FileAttributes};

/// Path of the open transaction's journal.
pub const JOURNAL: &str = "/var/lib/flameholder/journal";
/// Path at which a new journal is written, before it is renamed to [`JOURNAL`].
pub const NEW_JOURNAL: &str = "/var/lib/flameholder/journal.new";

/// Journal version that this release writes. It also reads older ones. Fields may be added within a version, since
/// readers ignore unknown ones; any change to the rules of recovery gets a new version.
pub const VERSION: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade the first line of a journal, from version 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Plan of a transaction: the journal's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalIntent {
    pub version: u32,
    /// ID of the boot in which the transaction began.
    pub boot_id: BootId,
    /// Tree that the paths belong to.
    pub scope: JournalScope,
    /// Generation of the tree before the transaction; `None` where nothing was applied.
    pub current: Option<GenerationId>,
    /// Generation of the tree after the transaction.
    pub target: Option<GenerationId>,
    /// Staging directories that hold new files and pre-images, one per mount.
    pub staging: Vec<ManagedPath>,
    /// Inodes of the staging directories, by which recovery tells a copy of the tree; empty in a journal of an older
    /// release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staging_inodes: Vec<u64>,
    /// Staging directories on file systems in memory, which a reboot empties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile_staging: Vec<ManagedPath>,
    /// Visible changes, in order.
    pub moves: Vec<JournalMove>,
    /// Pre-images that were put back in place; removed once the transaction is committed.
    pub discards: Vec<ManagedPath>,
    /// Requests to systemd after the last move, in order.
    pub actions: Vec<ServiceAction>,
}

/// Tree that a transaction changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JournalScope {
    /// Tree of one deployment, or a plain tree: its record names one of the two generations.
    Deployment,
    /// Paths in `/var`, which all deployments share.
    Var,
}

/// One visible change, made by a single rename or exchange, so that undoing it restores the exact state
/// before it. A slot is a name in a staging directory; its content tells if the move was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase")]
pub enum JournalMove {
    /// Exchange a staged file or link with the one at the path.
    Replace {
        path: ManagedPath,
        /// Place of the new file before the move, and of its pre-image after it.
        slot: ManagedPath,
        /// Inode of the new file, by which recovery tells it from the pre-image.
        inode: u64,
        /// Content of the new file, by which recovery tells it in a copy of the tree.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<StagedContent>,
    },
    /// Move a staged file or link to a path that is free.
    Create {
        path: ManagedPath,
        /// Place of the new file before the move.
        slot: ManagedPath,
    },
    /// Move a file or link away.
    Remove {
        path: ManagedPath,
        /// Place of the pre-image after the move.
        slot: ManagedPath,
    },
    /// Move a staged directory to a path that is free.
    MakeDirectory {
        path: ManagedPath,
        /// Place of the directory before the move.
        slot: ManagedPath,
    },
    /// Move a directory away if it is empty by then.
    RemoveDirectory {
        path: ManagedPath,
        /// Place of the directory after the move.
        slot: ManagedPath,
    },
    /// Change mode or owner of a directory.
    SetAttributes { path: ManagedPath, before: FileAttributes, after: FileAttributes },
}

/// Content and attributes of a staged file or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedContent {
    /// Digest of a file's content, or of a link's target.
    pub digest: ContentDigest,
    pub attributes: FileAttributes,
}

impl JournalMove {
    #[must_use]
    pub fn slot(&self) -> Option<&ManagedPath> {
        match self {
            Self::Replace { slot, .. }
            | Self::Create { slot, .. }
            | Self::Remove { slot, .. }
            | Self::MakeDirectory { slot, .. }
            | Self::RemoveDirectory { slot, .. } => Some(slot),
            Self::SetAttributes { .. } => None,
        }
    }

    #[must_use]
    pub fn path(&self) -> &ManagedPath {
        match self {
            Self::Replace { path, .. }
            | Self::Create { path, .. }
            | Self::Remove { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::RemoveDirectory { path, .. }
            | Self::SetAttributes { path, .. } => path,
        }
    }

    /// Return the directory to fsync for this move; `None` is the tree's root.
    #[must_use]
    pub fn changed_directory(&self) -> Option<ManagedPath> {
        match self {
            Self::SetAttributes { path, .. } => Some(path.clone()),
            other => other.path().parent(),
        }
    }
}

/// Point that a transaction reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum TransactionState {
    /// Intent and staged files are durable; moves may have begun.
    Prepared,
    /// All moves are durable; the first `begun` service actions may have taken effect.
    Acting { begun: usize },
    /// The change is kept; only staging directories and pre-images remain to be removed.
    Committed,
}

/// Parsed journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    pub intent: JournalIntent,
    /// Last point that is recorded.
    pub state: TransactionState,
}

/// Reason for refusing to recover from a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Line whose checksum does not match, or that is no journal line.
    #[error(
        "line {line} of the journal {JOURNAL} is damaged, so the interrupted change is neither undone nor completed; to keep the files as they are, save the .flameholder.d directories, which hold the previous files, move the journal away and run `flameholder verify`"
    )]
    Damaged { line: usize },
    /// Journal that a newer release wrote.
    #[error(
        "the journal {JOURNAL} has version {0}, and this release reads versions up to {VERSION}; run `flameholder recover` of the release that wrote it"
    )]
    Version(u32),
    /// Intact line with an unknown entry.
    #[error(
        "line {line} of the journal {JOURNAL} has an entry that this release does not know; run `flameholder recover` of the release that wrote it"
    )]
    Unknown {
        line: usize,
        #[source]
        source: serde_json::Error,
    },
}

impl JournalIntent {
    /// Render the journal's first line.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }

    /// Leave out a staging directory, with the moves that have their slots in it. Changes of attributes have none and stay.
    pub fn leave_out(&mut self, directory: &ManagedPath) {
        let Some(index) = self.staging.iter().position(|found| found == directory) else { return };
        self.staging.remove(index);
        if index < self.staging_inodes.len() {
            self.staging_inodes.remove(index);
        }
        let is_in_it = |act: &JournalMove| act.slot().is_some_and(|slot| slot.is_within(directory.as_str()));
        self.moves.retain(|act| !is_in_it(act));
    }
}

impl TransactionState {
    /// Render the journal line that records this point.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }
}

impl Journal {
    /// Parse a journal; fail on damage and on another release's version.
    pub fn parse(bytes: &[u8]) -> Result<Self, JournalError> {
        let mut lines = log_line::whole(bytes).enumerate();
        let damaged = |index: usize| JournalError::Damaged { line: index + 1 };
        let unknown = |index: usize| move |source| JournalError::Unknown { line: index + 1, source };
        let first = lines.next().and_then(|(_, first)| first).ok_or(damaged(0))?;
        let intent = log_line::first_line(first, VERSION, UPGRADES);
        let intent: JournalIntent = intent.map_err(|error| match error {
            FirstLineError::Unknown(source) => unknown(0)(source),
            FirstLineError::Version(version) => JournalError::Version(version),
        })?;
        let intent = JournalIntent { version: VERSION, ..intent };
        let mut reached = TransactionState::Prepared;
        for (index, line) in lines {
            let line = line.ok_or(damaged(index))?;
            reached = serde_json::from_slice(line).map_err(unknown(index))?;
        }
        Ok(Self { intent, state: reached })
    }
}
