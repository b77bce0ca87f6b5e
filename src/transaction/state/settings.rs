//! Settings of the agent, read from the fragments on a host.

use std::collections::BTreeMap;

use crate::core::config::host_config::HostConfig;
use crate::core::config::settings::{
    LOCAL_FRAGMENTS, Settings, SettingsError, VOLATILE_FRAGMENTS, is_fragment, is_fragment_name,
};
use crate::core::plan::drift::local_merge::MergePolicies;
use crate::core::state::record::GenerationRecord;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::DAEMON_ENVIRONMENT;
use crate::core::values::tree::MASK;
use crate::host::Root;
use crate::host::facts::fragments::{load_changed_fragments, unusable_fragments};
use crate::transaction::TransactionError;
use crate::transaction::state::current::CurrentState;

/// Line of the daemon's environment file that names its source.
const SOURCE_VARIABLE: &[u8] = b"FLAMEHOLDER_SOURCE=";

/// Load the settings from the tree at `root`.
pub fn settings(root: &Root) -> Result<Settings, TransactionError> {
    load(root, &BTreeMap::new())
}

/// Load the settings from the tree at `root`; the defaults where they cannot be used. Where that must stop a change, the
/// plan of it refuses them, and the drift comparison reports them.
#[must_use]
pub fn settings_or_default(root: &Root) -> Settings {
    settings(root).unwrap_or_default()
}

/// Fail if the settings of the tree at `root` cannot be used, and the desired config does not mend them; also if the
/// daemon takes its source from them, and would have none any more.
pub fn ensure_usable_after(root: &Root, desired: &HostConfig) -> Result<(), TransactionError> {
    let after = load(root, &changed_fragments(root, desired)?)?;
    let has_source = |settings: &Settings| settings.source.desired.is_some();
    if has_source(&after) || !settings(root).is_ok_and(|before| has_source(&before)) {
        return Ok(());
    }
    if daemon_needs_source(root)? { Err(SettingsError::without_source().into()) } else { Ok(()) }
}

/// Load the drift policies that decide on local changes in an update from the `running` tree to `desired`, written into the
/// tree at `next`; `None` if no path has the policy `merge`. After the update, settings that cannot be used have the default,
/// under which nothing is merged.
pub(crate) fn merge_policies(
    running: &Root,
    next: &Root,
    desired: &HostConfig,
) -> Result<Option<MergePolicies>, TransactionError> {
    let before = settings(running).map(|settings| settings.drift);
    if before.as_ref().is_ok_and(|before| !before.merges_any()) {
        return Ok(None);
    }
    let mut changed = shipped_fragments(running, next)?;
    changed.extend(changed_fragments(next, desired)?);
    // They may hold until the reboot that the update needs, and not after it.
    let volatile = ManagedPath::constant(VOLATILE_FRAGMENTS);
    let names = next.list(&volatile)?.into_iter().filter(|name| is_fragment_name(name));
    changed.extend(names.map(|name| (volatile.join(&name), None)));
    let after = load(next, &changed).unwrap_or_default().drift;
    // The update can mend settings that cannot be read. Until then, the policies after it are the best guess.
    let before = before.unwrap_or_else(|_| after.clone());
    Ok(Some(MergePolicies { before, after }))
}

/// Fragments with their contents after an update; `None` for a removed one.
type ChangedFragments = BTreeMap<ManagedPath, Option<Vec<u8>>>;

/// Find the fragments in `/etc` that are as the `running` image ships them, or absent, as the next image ships them:
/// libostree's merge of `/etc` takes these.
fn shipped_fragments(running: &Root, next: &Root) -> Result<ChangedFragments, TransactionError> {
    let local = ManagedPath::constant(LOCAL_FRAGMENTS);
    let shipped = ManagedPath::constant(&format!("/usr{LOCAL_FRAGMENTS}"));
    let mut changed = ChangedFragments::new();
    let names = running.list(&shipped)?.into_iter().chain(next.list(&shipped)?);
    for name in names.filter(|name| is_fragment_name(name)) {
        let (at, from) = (local.join(&name), shipped.join(&name));
        if running.path_state(&at)?.is_same_content(&running.path_state(&from)?) {
            changed.insert(at, next.read(&from, limits::FRAGMENT_BYTES)?);
        }
    }
    Ok(changed)
}

/// Find the fragments of the tree at `root` that `desired` changes.
fn changed_fragments(root: &Root, desired: &HostConfig) -> Result<ChangedFragments, TransactionError> {
    let written = desired.files.iter().filter(|(path, _)| is_fragment(path));
    let written = written.map(|(path, file)| (path.clone(), Some(file.with_appended())));
    // A link to /dev/null masks a fragment, as an empty file does.
    let masked = desired.links.iter().filter(|(path, link)| is_fragment(path) && link.target == MASK);
    let masked = masked.map(|(path, _)| (path.clone(), Some(Vec::new())));
    let current = CurrentState::load(root)?;
    let mut changed = ChangedFragments::new();
    for path in managed_fragments(&current).filter(|path| !desired.files.contains_key(*path)) {
        changed.insert(path.clone(), unmanaged_text(root, &current, path)?);
    }
    changed.extend(written.chain(masked));
    Ok(changed)
}

/// Read the successor of a fragment that the config does not have any more: its pre-image, or the file of the image.
fn unmanaged_text(
    root: &Root,
    current: &CurrentState,
    path: &ManagedPath,
) -> Result<Option<Vec<u8>>, TransactionError> {
    if current.prior_changes().originals.contains(path) {
        return Ok(root.read(&GenerationRecord::original_of(path), limits::FRAGMENT_BYTES)?);
    }
    match ManagedPath::parse(&format!("/usr{path}")) {
        Ok(shipped) if path.is_within(LOCAL_FRAGMENTS) => Ok(root.read(&shipped, limits::FRAGMENT_BYTES)?),
        _ => Ok(None),
    }
}

/// Return true if the daemon's unit is started, and its environment file names no source.
fn daemon_needs_source(root: &Root) -> Result<bool, TransactionError> {
    let environment = root.read(&ManagedPath::constant(DAEMON_ENVIRONMENT), limits::FRAGMENT_BYTES)?;
    let names_source = |text: &[u8]| {
        text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_start().starts_with(SOURCE_VARIABLE))
    };
    Ok(environment.is_some_and(|text| !names_source(&text)))
}

/// Iterate over the fragments that the current config manages, links included.
fn managed_fragments(current: &CurrentState) -> impl Iterator<Item = &ManagedPath> {
    let host = current.host();
    let files = host.into_iter().flat_map(|host| host.files.keys());
    let links = host.into_iter().flat_map(|host| host.links.keys());
    files.chain(links).filter(|path| is_fragment(path))
}

fn load(root: &Root, changed: &ChangedFragments) -> Result<Settings, TransactionError> {
    let parsed = Settings::of(&load_changed_fragments(root, changed)?);
    Ok(SettingsError::with_unusable_names(parsed, unusable_fragments(root)?)?)
}
