//! State in `/var`, which deployments share: the agent's own, and the managed files there.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use vm::writelog::{BootedSystem, Side, Tree};

use super::judge::Generation;

const STATE: &str = "lib/flameholder";

/// Read a JSON document.
pub fn document(tree: &Tree, path: &str) -> Result<Value> {
    let text = tree.text(path)?.with_context(|| format!("{path} does not exist"))?;
    serde_json::from_str(&text).with_context(|| format!("{path} is not JSON: {text:?}"))
}

/// Return the ID of the generation that booted last.
pub fn last_booted(var: &Tree) -> Result<String> {
    let active = document(var, &format!("{STATE}/active"))?;
    Ok(active["lastBooted"]["generation"].as_str().unwrap_or_default().to_owned())
}

/// Check that the objects of the booted generation are stored, and that the managed files in `/var` are those
/// of one generation, unless an open journal covers the switch.
pub fn ensure_var_sound(booted: &BootedSystem, side: Side, old: &Generation, new: &Generation) -> Result<()> {
    let var = &booted.var;
    let record = document(&booted.deployment, "etc/flameholder/generation")?;
    if let Some(digest) = record["manifest"].as_str() {
        ensure_stored(var, digest)?;
    }
    log_lines(var, "pending")?;
    let journal = log_lines(var, "journal")?;
    let active = document(var, &format!("{STATE}/active"))?;
    let last_booted = last_booted(var)?;
    if let Some(digest) = active["manifest"].as_str() {
        ensure_stored(var, digest)?;
    }
    let unexpected = new.expected.unexpected_files(&old.expected, var);
    ensure!(unexpected.is_empty(), "files in /var of neither generation: {}", unexpected.join("; "));
    let (active, other) = match last_booted {
        _ if last_booted == old.id => (old, new),
        _ if last_booted == new.id && side == Side::New => (new, old),
        _ => bail!("/var belongs to generation {last_booted}"),
    };
    // While the journal is open, each of its moves may or may not have been made.
    let differences = active.expected.differences(&other.expected, var, false);
    let is_open = journal.is_some_and(|lines| lines[0]["scope"] == "var");
    ensure!(
        is_open || differences.is_empty(),
        "/var belongs to {} without an open transaction, but {}",
        active.expected.config,
        differences.join("; ")
    );
    Ok(())
}

/// Check that a manifest and all objects that it names are stored.
fn ensure_stored(var: &Tree, digest: &str) -> Result<()> {
    let manifest: Value = serde_json::from_slice(&object(var, digest)?)?;
    for entry in manifest["entries"].as_object().context("the manifest has no entries")?.values() {
        if let Some(digest) = entry["digest"].as_str() {
            object(var, digest)?;
        }
    }
    Ok(())
}

fn object(var: &Tree, digest: &str) -> Result<Vec<u8>> {
    let hex = digest.trim_start_matches("sha256:");
    let bytes = var.read(&format!("{STATE}/objects/{hex}")).context("an object is missing")?;
    ensure!(format!("{:x}", Sha256::digest(&bytes)) == hex, "the object {hex} is damaged");
    Ok(bytes)
}

/// Return the complete lines of a checksummed log, or `None` if there is no such file.
fn log_lines(var: &Tree, name: &str) -> Result<Option<Vec<Value>>> {
    let Some(text) = var.text(&format!("{STATE}/{name}")).with_context(|| format!("{name} is not text"))?
    else {
        return Ok(None);
    };
    // A line without a newline is a torn write.
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines: Option<Vec<Value>> = complete.split('\n').map(verified_line).collect();
    lines.with_context(|| format!("{name} is damaged: {text:?}")).map(Some)
}

fn verified_line(line: &str) -> Option<Value> {
    let (sum, json) = line.split_once(' ')?;
    let is_valid = format!("{:x}", Sha256::digest(json)).starts_with(sum) && sum.len() == 16;
    if is_valid { serde_json::from_str(json).ok() } else { None }
}
