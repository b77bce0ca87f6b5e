//! The agent's own settings, read from the fragments on a host.

use crate::core::config::settings::Settings;
use crate::host::Root;
use crate::host::facts::fragments::load_fragments;
use crate::transaction::TransactionError;

/// The agent's own settings in the tree at `root`.
pub(crate) fn settings(root: &Root) -> Result<Settings, TransactionError> {
    Ok(Settings::of(&load_fragments(root)?)?)
}
