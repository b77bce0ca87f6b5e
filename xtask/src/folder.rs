//! Folders: their names, and their removal.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// List a folder in order.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut names =
        entries.map(|entry| Ok(entry?.file_name().display().to_string())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Remove a folder with all in it, if it exists.
///
/// # Errors
/// A file in it cannot be removed.
pub fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}
