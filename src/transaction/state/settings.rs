//! Settings of the agent, read from the fragments on a host.

use std::collections::BTreeMap;

use crate::core::config::host_config::HostConfig;
use crate::core::config::settings::{Settings, SettingsError, is_fragment};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::MASK;
use crate::host::Root;
use crate::host::facts::fragments::{load_changed_fragments, unusable_fragments};
use crate::transaction::TransactionError;
use crate::transaction::state::current::CurrentState;

/// Load the settings from the tree at `root`.
pub fn settings(root: &Root) -> Result<Settings, TransactionError> {
    load(root, &BTreeMap::new())
}

/// Fail if the settings of the tree at `root` cannot be used, and the desired config does not mend them.
pub fn ensure_usable_after(root: &Root, desired: &HostConfig) -> Result<(), TransactionError> {
    let written = desired.files.iter().filter(|(path, _)| is_fragment(path));
    let written = written.map(|(path, file)| (path.clone(), Some(file.with_appended())));
    // A link to /dev/null masks a fragment, as an empty file does.
    let masked = desired.links.iter().filter(|(path, link)| is_fragment(path) && link.target == MASK);
    let masked = masked.map(|(path, _)| (path.clone(), Some(Vec::new())));
    let dropped = managed_fragments(root)?.into_iter().filter(|path| !desired.files.contains_key(path));
    let mut changed: BTreeMap<_, _> = dropped.map(|path| (path, None)).collect();
    changed.extend(written.chain(masked));
    load(root, &changed).map(drop)
}

/// List the fragments that the current config manages: one that the desired config does not have is removed.
fn managed_fragments(root: &Root) -> Result<Vec<ManagedPath>, TransactionError> {
    let current = CurrentState::load(root)?;
    let files = current.host().into_iter().flat_map(|host| host.files.keys());
    Ok(files.filter(|path| is_fragment(path)).cloned().collect())
}

fn load(root: &Root, changed: &BTreeMap<ManagedPath, Option<Vec<u8>>>) -> Result<Settings, TransactionError> {
    let parsed = Settings::of(&load_changed_fragments(root, changed)?);
    Ok(SettingsError::with_unusable_names(parsed, unusable_fragments(root)?)?)
}
