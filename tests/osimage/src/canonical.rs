//! Reproducible images: the same content gives the same digest.
//!
//! `ostree_ext` writes labels and annotations in the order of a hash map, which differs in every run, and dates the history
//! with the current time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Sort the keys of the manifest with this digest, of its config and of the layout's index. Return the new
/// digest of the manifest.
pub(crate) fn canonicalize(layout: &Path, digest: &str) -> anyhow::Result<String> {
    let mut manifest = read(&blob(layout, digest))?;
    let config = manifest
        .pointer("/config/digest")
        .and_then(Value::as_str)
        .context("the manifest has no config digest")?
        .to_owned();
    let mut contents = read(&blob(layout, &config))?;
    date_history(&mut contents);
    let described = replace(layout, &config, contents)?;
    describe(&mut manifest, "/config", &described)?;
    let described = replace(layout, digest, manifest)?;

    let path = layout.join("index.json");
    let mut index = read(&path)?;
    let entries = index.get("manifests").and_then(Value::as_array).map_or(0, Vec::len);
    for entry in (0..entries).map(|position| format!("/manifests/{position}")) {
        let found = index.pointer(&entry).and_then(|entry| entry.get("digest"));
        if found.and_then(Value::as_str) == Some(digest) {
            describe(&mut index, &entry, &described)?;
        }
    }
    fs::write(&path, serde_json::to_vec(&sorted(index))?)?;
    Ok(described.digest)
}

/// Date every entry of the history with the creation time of the image.
fn date_history(config: &mut Value) {
    let created = config.get("created").cloned().unwrap_or_default();
    let history = config.get_mut("history").and_then(Value::as_array_mut);
    for entry in history.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.insert("created".into(), created.clone());
    }
}

/// Digest and size of a rewritten blob, for the descriptors that refer to it.
struct BlobDescription {
    digest: String,
    size: usize,
}

/// Update the descriptor at `pointer`.
fn describe(document: &mut Value, pointer: &str, described: &BlobDescription) -> anyhow::Result<()> {
    let descriptor = document
        .pointer_mut(pointer)
        .and_then(Value::as_object_mut)
        .with_context(|| format!("no descriptor at {pointer}"))?;
    descriptor.insert("digest".into(), json!(described.digest));
    descriptor.insert("size".into(), json!(described.size));
    Ok(())
}

fn blob(layout: &Path, digest: &str) -> PathBuf {
    layout.join("blobs").join(digest.replace(':', "/"))
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Write the contents as a new blob and remove the blob `old`.
fn replace(layout: &Path, old: &str, contents: Value) -> anyhow::Result<BlobDescription> {
    let text = serde_json::to_vec(&sorted(contents))?;
    let digest = format!("sha256:{:x}", Sha256::digest(&text));
    fs::write(blob(layout, &digest), &text)?;
    if digest != old {
        fs::remove_file(blob(layout, old))?;
    }
    Ok(BlobDescription { digest, size: text.len() })
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries: BTreeMap<_, _> =
                entries.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(entries.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}
