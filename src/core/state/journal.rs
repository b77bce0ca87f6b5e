//! The journal of one transaction: how each of its acts is undone, and how far it came.
//!
//! It is a log of lines that can be checked. The first line is the intent and is durable before
//! anything visible happens; each later one says that a point was reached, and is durable before
//! what comes after that point. A last line that is cut off was never reached. Anything else that
//! does not check out is refused: a wrong guess would tear what the journal is there to protect.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::core::state::service_action::ServiceAction;
use crate::core::values::log_line;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileAttributes;

/// Where the journal of an open transaction lies.
pub const JOURNAL: &str = "/var/lib/flameholder/journal";
/// Where it is written before it has its name.
pub const NEW_JOURNAL: &str = "/var/lib/flameholder/journal.new";

/// The version of the journal that this release writes, and the only one that it reads. Fields
/// may be added within a version, since readers pass over those that they do not know; whatever
/// changes how a transaction is settled gets a new one.
pub const VERSION: u32 = 1;

/// What a transaction is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalIntent {
    /// [`VERSION`].
    pub version: u32,
    /// Boot ID of the system that began it.
    pub boot_id: String,
    /// Which tree its paths are in.
    pub scope: JournalScope,
    /// The generation that the tree was.
    pub current: Option<String>,
    /// The generation that it becomes.
    pub target: Option<String>,
    /// Directories that hold what is staged, one per mount.
    pub staging: Vec<ManagedPath>,
    /// The visible acts, in order.
    pub moves: Vec<JournalMove>,
    /// Pre-images that are back in their place, removed when the transaction is committed.
    pub discards: Vec<ManagedPath>,
    /// What services do after the last move.
    pub actions: Vec<ServiceAction>,
}

/// Which tree the paths of a transaction are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JournalScope {
    /// That of one deployment, or a plain one: its record names one of the two generations.
    Deployment,
    /// What lies in `/var`, which all deployments share.
    Var,
}

/// One visible act. Each is a single rename or exchange, so that its inverse leads back to the very
/// state before it; a slot is a name in a staging directory, and what it holds says whether the act
/// was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase")]
pub enum JournalMove {
    /// A staged leaf changes places with the leaf that stands at the path.
    Replace {
        /// The path.
        path: ManagedPath,
        /// Where the new leaf waits, and the one before it after that.
        slot: ManagedPath,
        /// Inode of the new leaf: what has it is new.
        inode: u64,
    },
    /// A staged leaf moves to a path at which nothing stands.
    Create {
        /// The path.
        path: ManagedPath,
        /// Where the new leaf waits.
        slot: ManagedPath,
    },
    /// A leaf moves away.
    Remove {
        /// The path.
        path: ManagedPath,
        /// Where it is kept.
        slot: ManagedPath,
    },
    /// A staged directory moves to a path at which nothing stands.
    MakeDirectory {
        /// The path.
        path: ManagedPath,
        /// Where it waits.
        slot: ManagedPath,
    },
    /// A directory moves away, if it is empty by then.
    RemoveDirectory {
        /// The path.
        path: ManagedPath,
        /// Where it is kept.
        slot: ManagedPath,
    },
    /// A directory gets another mode or owner.
    SetAttributes {
        /// The directory.
        path: ManagedPath,
        /// What it has.
        before: FileAttributes,
        /// What it gets.
        after: FileAttributes,
    },
}

impl JournalMove {
    /// The path that changes.
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

    /// The directory that has to be made durable for it; `None` is the root.
    #[must_use]
    pub fn changed_directory(&self) -> Option<ManagedPath> {
        match self {
            Self::SetAttributes { path, .. } => Some(path.clone()),
            other => other.path().parent(),
        }
    }
}

/// A point that a transaction reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reached", rename_all = "camelCase")]
pub enum TransactionState {
    /// The intent is durable, and so is everything staged. Moves may have begun.
    Prepared,
    /// All moves are durable; the first `begun` actions on services may have had their effect.
    Acting {
        /// How many.
        begun: usize,
    },
    /// The change holds. What is left of it is only to be cleared away.
    Committed,
}

/// A journal as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// What the transaction is about.
    pub intent: JournalIntent,
    /// How far it came for certain.
    pub reached: TransactionState,
}

/// Why a journal is not acted on.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A line is damaged, or is none of ours.
    #[error(
        "line {line} of the journal {JOURNAL} is damaged, and nothing is done by guesswork; to keep the tree as it is, save its .flameholder.d directories, which hold what was there before, move the journal away, and see `flameholder verify`"
    )]
    Damaged {
        /// Counted from 1.
        line: usize,
    },
    /// Another release's.
    #[error(
        "the journal {JOURNAL} has version {0} and this release reads {VERSION}; run `flameholder recover` of the release that wrote it"
    )]
    Version(u32),
    /// A line checks out, and what it says is unknown.
    #[error(
        "line {line} of the journal {JOURNAL} says what this release does not know; run `flameholder recover` of the release that wrote it"
    )]
    Unknown {
        /// Counted from 1.
        line: usize,
        /// What is unknown.
        #[source]
        source: serde_json::Error,
    },
}

impl JournalIntent {
    /// The journal's first line.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }
}

impl TransactionState {
    /// The line that says so.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }
}

impl Journal {
    /// Reads a journal.
    pub fn parse(bytes: &[u8]) -> Result<Self, JournalError> {
        let mut lines = log_line::whole(bytes).enumerate();
        let damaged = |index: usize| JournalError::Damaged { line: index + 1 };
        let unknown = |index: usize| move |source| JournalError::Unknown { line: index + 1, source };
        let first = lines.next().and_then(|(_, first)| first).ok_or(damaged(0))?;
        ensure_version(first)?;
        let intent = serde_json::from_slice(first).map_err(unknown(0))?;
        let mut reached = TransactionState::Prepared;
        for (index, line) in lines {
            let line = line.ok_or(damaged(index))?;
            reached = serde_json::from_slice(line).map_err(unknown(index))?;
        }
        Ok(Self { intent, reached })
    }
}

fn ensure_version(first: &[u8]) -> Result<(), JournalError> {
    match log_line::version(first) {
        Ok(VERSION) => Ok(()),
        Ok(version) => Err(JournalError::Version(version)),
        Err(source) => Err(JournalError::Unknown { line: 1, source }),
    }
}
