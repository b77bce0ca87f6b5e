//! Configs that a real cluster rendered, where they are at hand.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The configs, sorted by file name; none, and a message, where there is no folder of them.
pub fn real_configs() -> Vec<PathBuf> {
    let beside = crate::repository().join("../shared/rendered");
    let folder = env::var_os("FLAMEHOLDER_RENDERED").map_or(beside, PathBuf::from);
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("SKIPPED: there is no folder {} of rendered MachineConfigs", folder.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut configs: Vec<PathBuf> = paths.filter(|path| path.extension() == Some("json".as_ref())).collect();
    configs.sort();
    assert!(!configs.is_empty(), "{} holds no configs", folder.display());
    configs
}
