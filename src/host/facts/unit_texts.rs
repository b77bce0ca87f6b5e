//! Unit files and presets that determine the enablement of configured units.

use std::collections::BTreeMap;

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::enablement::{SEARCH_PATH, SystemdVersion, UnitFile};
use crate::core::plan::first_presets;
use crate::core::plan::unit_texts::{PRESET_PATH, UnitTexts};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{ObservedPaths, PathState};
use crate::host::fs::error::HostError;
use crate::host::fs::root::Root;

/// Maximum size of a unit or preset file, in bytes.
const UNIT_BYTES: usize = 1 << 20;

/// Load a unit's files and drop-ins from all directories of systemd's search path.
pub fn load_unit(root: &Root, name: &str, texts: &mut UnitTexts) -> Result<(), HostError> {
    for directory in SEARCH_PATH {
        let directory = ManagedPath::constant(directory);
        load(root, &directory.join(name), texts)?;
        load_directory(root, &directory.join(&format!("{name}.d")), ".conf", texts)?;
    }
    Ok(())
}

pub fn load_presets(root: &Root, texts: &mut UnitTexts) -> Result<(), HostError> {
    for directory in PRESET_PATH {
        let directory = ManagedPath::constant(directory);
        load_directory(root, &directory, ".preset", texts)?;
    }
    // Our own preset file is derived from the last config and says nothing new.
    texts.retain(|path, _| !first_presets::is_ours(path));
    Ok(())
}

fn load_directory(
    root: &Root,
    directory: &ManagedPath,
    suffix: &str,
    texts: &mut UnitTexts,
) -> Result<(), HostError> {
    for name in root.list(directory)? {
        if name.ends_with(suffix) {
            load(root, &directory.join(&name), texts)?;
        }
    }
    Ok(())
}

/// Load a unit file outside the search path that a link points to.
pub fn load_linked(root: &Root, path: &str, texts: &mut UnitTexts) -> Result<(), HostError> {
    match ManagedPath::parse(path) {
        Ok(path) => load(root, &path, texts),
        Err(_) => Ok(()),
    }
}

/// Determine the tree's systemd version from the name of its shared library. Without the library, assume the
/// newest version with known enablement rules.
pub fn load_version(root: &Root) -> Result<SystemdVersion, HostError> {
    const NEWEST: SystemdVersion = SystemdVersion(257);
    for directory in ["/usr/lib/systemd", "/usr/lib64/systemd", "/usr/lib/x86_64-linux-gnu/systemd"] {
        let directory = ManagedPath::constant(directory);
        for name in root.list(&directory)? {
            let version = name.strip_prefix("libsystemd-shared-").and_then(|rest| {
                rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
            });
            if let Some(version) = version {
                return Ok(SystemdVersion(version));
            }
        }
    }
    Ok(NEWEST)
}

fn load(root: &Root, path: &ManagedPath, texts: &mut UnitTexts) -> Result<(), HostError> {
    let text = match root.link_target(path)? {
        Some(target) => UnitFile::Symlink(target),
        None => match root.read(path, UNIT_BYTES)? {
            // systemd uses the valid lines of a file with invalid UTF-8; so does this.
            Some(bytes) => UnitFile::Regular(String::from_utf8_lossy(&bytes).into_owned()),
            None => return Ok(()),
        },
    };
    texts.insert(path.clone(), text);
    Ok(())
}

/// Symlinks by path, with their targets.
pub type LinkTargets = BTreeMap<ManagedPath, String>;

/// Load all symlinks in `/etc/systemd/system` and in its `.wants`, `.requires` and `.upholds` directories,
/// and all other entries there.
pub fn load_links(root: &Root) -> Result<(LinkTargets, ObservedPaths), HostError> {
    let top = ManagedPath::constant(UNIT_DIRECTORY);
    let (mut links, mut others) = (BTreeMap::new(), BTreeMap::new());
    for name in root.list(&top)? {
        let path = top.join(&name);
        let node = root.path_state(&path)?;
        others.insert(path.clone(), node.clone());
        if let PathState::Symlink { target, .. } = node {
            links.insert(path, target);
            continue;
        }
        let dependencies = [".wants", ".requires", ".upholds"];
        if !dependencies.iter().any(|suffix| name.ends_with(suffix)) {
            continue;
        }
        for name in root.list(&path)? {
            let path = path.join(&name);
            match root.link_target(&path)? {
                Some(target) => drop(links.insert(path, target)),
                None => drop(others.insert(path.clone(), root.path_state(&path)?)),
            }
        }
    }
    Ok((links, others))
}
