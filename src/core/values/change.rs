//! The kind of change to one item between the current and the desired config.

use serde::{Deserialize, Serialize};

/// Addition, modification or removal of one item (file, unit, key, kernel argument).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Listed by the desired config only.
    Add,
    /// Listed by both configs, with a difference.
    Modify,
    /// Listed by the current config only.
    Remove,
}
