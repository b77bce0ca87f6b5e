//! Settings of the agent, read from the fragments on a host.

use std::collections::BTreeMap;

use crate::core::config::host_config::{FileSpec, HostConfig};
use crate::core::config::settings::{FRAGMENT_DIRECTORIES, Settings, SettingsError};
use crate::core::values::names::ManagedPath;
use crate::host::Root;
use crate::host::facts::fragments::{load_changed_fragments, unusable_fragments};
use crate::transaction::TransactionError;

/// Load the settings from the tree at `root`.
pub fn settings(root: &Root) -> Result<Settings, TransactionError> {
    load(root, &BTreeMap::new())
}

/// Fail if the settings of the tree at `root` cannot be used, and the desired config does not mend them.
pub fn ensure_usable_after(root: &Root, desired: &HostConfig) -> Result<(), TransactionError> {
    let is_fragment = |path: &ManagedPath| {
        path.parent().is_some_and(|parent| FRAGMENT_DIRECTORIES.contains(&parent.as_str()))
    };
    let written = desired.files.iter().filter(|(path, _)| is_fragment(path));
    let text =
        |file: &FileSpec| [&file.contents].into_iter().chain(&file.append).flatten().copied().collect();
    let written = written.map(|(path, file)| (path.clone(), Some(text(file))));
    load(root, &written.collect()).map(drop)
}

fn load(root: &Root, changed: &BTreeMap<ManagedPath, Option<Vec<u8>>>) -> Result<Settings, TransactionError> {
    let parsed = Settings::of(&load_changed_fragments(root, changed)?);
    Ok(SettingsError::with_unusable_names(parsed, unusable_fragments(root)?)?)
}
