//! The kind of a change to one item.

use serde::{Deserialize, Serialize};

/// How one item differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Only the desired config has it.
    Add,
    /// Both have it, differently.
    Modify,
    /// Only the current config has it.
    Remove,
}
