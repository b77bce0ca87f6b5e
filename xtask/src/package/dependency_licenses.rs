//! Texts of the licenses of linked crates, which have to be passed on with the executables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::linked_crates::LinkedCrate;
use super::named;
use crate::folder;

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
    let names = folder::names(&linked.directory)?;
    let has_license =
        |name: &String| NAMES.iter().any(|beginning| name.to_uppercase().starts_with(beginning));
    let paths = names.iter().filter(|name| has_license(name)).map(|name| linked.directory.join(name));
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    paths.filter(|path| path.is_file()).map(read).collect()
}
