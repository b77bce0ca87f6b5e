//! Settings of the agent, read from the fragments on a host.

use crate::core::config::settings::Settings;
use crate::host::Root;
use crate::host::facts::fragments::load_fragments;
use crate::transaction::TransactionError;

/// Load the settings from the tree at `root`.
pub(crate) fn settings(root: &Root) -> Result<Settings, TransactionError> {
    Ok(Settings::of(&load_fragments(root)?)?)
}
