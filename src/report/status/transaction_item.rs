//! Item of the status about an open change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::state::journal::{Journal, TransactionState};
use crate::core::values::identifiers::GenerationId;

/// Change whose journal is open: under way while another process holds the lock, else interrupted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransactionItem {
    /// Generation before the change.
    pub current: Option<GenerationId>,
    /// Generation that the change creates.
    pub target: Option<GenerationId>,
    /// Last state that the journal records. Until it is `committed`, recovery undoes the change.
    pub state: JournalState,
    /// Number of service actions that may have taken effect, in the state `acting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<usize>,
    /// True if another process works on the change; false if it was interrupted and `flameholder recover`
    /// has to end it.
    pub in_progress: bool,
}

/// State of an open change.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JournalState {
    /// Files are being put in place.
    Prepared,
    /// All files are in place; services are being reloaded and restarted.
    Acting,
    /// The change is kept; only temporary files remain to be removed.
    Committed,
}

impl TransactionItem {
    /// Describe an open change.
    #[must_use]
    pub fn of(open: Journal, in_progress: bool) -> Self {
        let (state, begun) = match open.state {
            TransactionState::Prepared => (JournalState::Prepared, None),
            TransactionState::Acting { begun } => (JournalState::Acting, Some(begun)),
            TransactionState::Committed => (JournalState::Committed, None),
        };
        Self { current: open.intent.current, target: open.intent.target, state, begun, in_progress }
    }
}
