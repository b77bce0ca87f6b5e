//! Configs that a real cluster rendered.

use std::path::PathBuf;
use std::{env, fs};

/// Rendered configs, sorted by file name: those of the fixtures, or of the folder that `FLAMEHOLDER_RENDERED`
/// names.
pub fn real_configs() -> Vec<PathBuf> {
    let folder =
        env::var_os("FLAMEHOLDER_RENDERED").map_or_else(|| crate::fixture("rendered"), PathBuf::from);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut configs: Vec<PathBuf> = paths.filter(|path| path.extension() == Some("json".as_ref())).collect();
    configs.sort();
    assert!(!configs.is_empty(), "no config in {}", folder.display());
    configs
}
