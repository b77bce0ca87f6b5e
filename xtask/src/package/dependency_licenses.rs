//! Texts of the licenses of linked crates, which have to be passed on with the executables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};

use super::linked_crates::LinkedCrate;
use super::named;

/// Beginnings of the names of files with licenses.
const NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT"];

/// Render the crates with their license expressions, and each text once with the crates that have it.
pub(super) fn render(crates: &[LinkedCrate]) -> Result<String> {
    let others = || crates.iter().filter(|linked| linked.name != "flameholder");
    let mut text = String::from("Crates that are linked into flameholder and flameholder-ostree\n\n");
    for linked in others() {
        writeln!(text, "{}: {}", named(linked), linked.license)?;
    }
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for linked in others() {
        for license in license_texts(linked)? {
            texts.entry(license).or_default().push(named(linked));
        }
    }
    for (license, crates) in texts {
        writeln!(text, "\n{}\n{}\n\n{}", "=".repeat(72), crates.join(", "), license.trim_end())?;
    }
    Ok(text)
}

fn license_texts(linked: &LinkedCrate) -> Result<Vec<String>> {
    let directory = &linked.directory;
    let entries = fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning))
    });
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    paths.iter().map(read).collect()
}
