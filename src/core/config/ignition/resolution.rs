//! Resolution of an Ignition config: the configs that it names are merged into it or take its place, and contents that it names
//! by URL and hash are embedded. Source of the rules: Ignition's `internal/exec/config_fetcher.go`.
//!
//! A config that `replace` names takes the place of all else. Those in `merge` are merged in their order; each is resolved
//! first, and wins over the config that names it. Files are looked at after that, so that nothing is fetched for one that
//! another config replaced. A hash is that of the decompressed contents.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::content_hash::ContentHash;
use super::remote_contents::{RemoteContents, RemoteSource, UnresolvedConfig};
use super::work_of_ignition::{self, is_filled};
use super::{ParsedIgnition, merge, newest};
use crate::core::config::contents::ContentsDecoder;
use crate::core::config::machine_config::{ConfigMetadata, MachineConfig, MachineConfigSpec};
use crate::core::config::settings::server_url::{ServerUrl, is_url};
use crate::core::config::{decode, document, ignition};
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::limits;
use crate::core::values::refusal::{Refusal, RefusalList};

/// Field of the config in the MachineConfig that stands for it.
const CARRIER: &str = "spec.config";
/// Sections that name other configs.
const REFERENCES: [&str; 3] = ["ignition.config.merge", "ignition.config.append", "ignition.config.replace"];
/// Lowest version of the result of a merge.
const FIRST_VERSION: &str = "3.0.0";

/// Config that names no other config and no contents that were to be fetched.
#[derive(Debug)]
pub struct ResolvedIgnition {
    /// Equal to the given document, if that named nothing.
    pub document: Value,
    /// Keys of merged configs that their versions do not define, by path.
    pub unused: Vec<String>,
}

/// Resolve an Ignition config, or refuse it with every problem found. `remote` has contents that were fetched.
pub fn resolve(document: Value, remote: &RemoteContents) -> Result<ResolvedIgnition, UnresolvedConfig> {
    let is_merged = REFERENCES.iter().any(|section| is_filled(&document, section));
    let mut resolution = ConfigResolution::new(remote);
    let mut document = if is_merged {
        resolution.merged(&document)
    } else {
        resolution.refused = work_of_ignition::refusals(&document, CARRIER);
        document
    };
    resolution.ensure_complete()?;
    resolution.embed_contents(&mut document);
    if is_merged {
        resolution.refused = resolution.refused.iter().map(once_merged).collect();
    }
    resolution.ensure_complete()?;
    Ok(ResolvedIgnition { document, unused: resolution.unused })
}

/// Name a problem of the result of a merge, whose entries have no place in the document.
fn once_merged(refusal: &Refusal) -> Refusal {
    let section = refusal.field.strip_prefix(CARRIER).unwrap_or(&refusal.field).trim_start_matches('.');
    Refusal::new(format!("{CARRIER}.ignition.config"), format!("once merged, {section}: {}", refusal.reason))
}

/// Where contents are, as a config says it.
struct ContentsReference<'a> {
    source: &'a str,
    compression: Option<&'a str>,
    hash: Option<&'a str>,
    has_headers: bool,
}

impl<'a> ContentsReference<'a> {
    /// Read the members of an object; `None` without a source.
    fn of(resource: &'a Map<String, Value>) -> Option<Self> {
        let text = |key: &str| resource.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let hash = resource.get("verification").and_then(|verification| verification.get("hash"));
        let headers = resource.get("httpHeaders").and_then(Value::as_array);
        Some(Self {
            source: text("source")?,
            compression: text("compression"),
            hash: hash.and_then(Value::as_str).filter(|hash| !hash.is_empty()),
            has_headers: headers.is_some_and(|headers| !headers.is_empty()),
        })
    }
}

/// Resolution of one config, and its problems so far.
struct ConfigResolution<'a> {
    remote: &'a RemoteContents,
    decoder: ContentsDecoder,
    refused: Vec<Refusal>,
    wanted: Vec<RemoteSource>,
    unused: Vec<String>,
    /// Newest version of the merged configs.
    version: String,
    /// Number of the configs that were named so far, and their bytes.
    configs: usize,
    config_bytes: usize,
    embedded_bytes: usize,
}

impl<'a> ConfigResolution<'a> {
    fn new(remote: &'a RemoteContents) -> Self {
        Self {
            remote,
            decoder: ContentsDecoder::default(),
            refused: Vec::new(),
            wanted: Vec::new(),
            unused: Vec::new(),
            version: FIRST_VERSION.to_owned(),
            configs: 0,
            config_bytes: 0,
            embedded_bytes: 0,
        }
    }

    /// Fail with the problems, else with the contents that have to be fetched.
    fn ensure_complete(&mut self) -> Result<(), UnresolvedConfig> {
        RefusalList::or(std::mem::take(&mut self.refused), ())?;
        if self.wanted.is_empty() {
            return Ok(());
        }
        Err(UnresolvedConfig::Unfetched(std::mem::take(&mut self.wanted)))
    }

    fn refuse(&mut self, field: &str, reason: impl AsRef<str>) {
        self.refused.push(Refusal::new(field, reason));
    }

    fn accepted<T>(&mut self, result: Result<T, RefusalList>) -> Option<T> {
        result.map_err(|refusals| self.refused.extend_from_slice(refusals.as_slice())).ok()
    }

    /// Merge all configs that the document names. The result is of no use if anything is refused or wanted.
    fn merged(&mut self, document: &Value) -> Value {
        let Some(mut config) = self.config(document, CARRIER, 0) else { return Value::Null };
        if self.refused.is_empty() && self.wanted.is_empty() {
            self.check(&config, once_merged);
        }
        self.version.clone_into(&mut config.ignition.version);
        merge::without_empty(serde_json::to_value(config).expect("a config has only string keys"))
    }

    /// Resolve the config at `place`.
    fn config(&mut self, document: &Value, place: &str, depth: usize) -> Option<newest::Config> {
        let parsed = self.accepted(ignition::parse(document, place))?;
        let ParsedIgnition { config: mut merged, unused, legacy } = parsed;
        let others = merged.ignition.config.take().unwrap_or_default();
        if let Some(other) = others.replace.filter(|other| other.source.is_some()) {
            return self.referenced(&other, &format!("{place}.ignition.config.replace"), depth);
        }
        self.unused.extend(unused);
        self.refused.extend(work_of_ignition::refusals(document, place));
        self.check(&merged, |refusal| {
            let field = refusal.field.strip_prefix(CARRIER).unwrap_or(&refusal.field);
            Refusal::new(format!("{place}{field}"), &refusal.reason)
        });
        let version = document.pointer("/ignition/version").and_then(Value::as_str).unwrap_or_default();
        // All accepted versions have one-digit numbers, so that they compare as text.
        if version > self.version.as_str() {
            version.clone_into(&mut self.version);
        }
        let list = if legacy { "append" } else { "merge" };
        for (index, other) in others.merge.iter().flatten().enumerate() {
            let place = format!("{place}.ignition.config.{list}[{index}]");
            let Some(child) = self.referenced(other, &place, depth) else { continue };
            if legacy {
                // Version 2 knows no merge of two files: the last one of a path is written.
                merge::remove_paths_of(&mut merged, &child);
            }
            merged = merge::merge(&merged, &child);
        }
        Some(merged)
    }

    /// Read and resolve a config that the one at `depth` names.
    fn referenced(&mut self, other: &newest::Resource, place: &str, depth: usize) -> Option<newest::Config> {
        self.configs += 1;
        if depth >= limits::MERGE_DEPTH {
            let reason = format!("configs name each other {} levels deep; merge some", limits::MERGE_DEPTH);
            self.refuse(place, reason);
            return None;
        }
        if self.configs > limits::MERGED_CONFIGS {
            let reason = format!("the config names more than {} others; merge some", limits::MERGED_CONFIGS);
            self.refuse(place, reason);
            return None;
        }
        let resource = serde_json::to_value(other).unwrap_or_default();
        let Some(reference) = resource.as_object().and_then(ContentsReference::of) else {
            self.refuse(place, "a config that is merged needs a `source`");
            return None;
        };
        if is_url(reference.source) && reference.hash.is_none() {
            let reason = "a config from a URL needs its hash in `verification.hash`; add it, or give the config as a data URL";
            self.refuse(&format!("{place}.source"), reason);
            return None;
        }
        let purpose = place.strip_prefix(CARRIER).unwrap_or(place).trim_start_matches('.');
        let bytes = self.contents(&reference, purpose, place)?.into_owned();
        self.config_bytes += bytes.len();
        if self.config_bytes > limits::DOCUMENT_BYTES {
            let reason = format!("all merged configs together exceed {} bytes", limits::DOCUMENT_BYTES);
            self.refuse(place, reason);
            return None;
        }
        match document::parse(&bytes) {
            // The parser takes an empty object for the empty config, which would remove everything.
            Ok(document) if document.get("ignition").is_none() => {
                let reason = "the Ignition version is missing; the contents are no Ignition config";
                self.refuse(&format!("{place}.ignition.version"), reason);
                None
            }
            Ok(document) => self.config(&document, place, depth + 1),
            Err(refusals) => {
                // Their places are those in the merged config.
                let refused = refusals.as_slice().iter();
                let refused = refused.map(|refusal| Refusal::new(place, refusal.to_string()));
                self.refused.extend(refused);
                None
            }
        }
    }

    /// Check a config by itself: the merge would hide a problem, or show it in another place.
    fn check(&mut self, config: &newest::Config, named: impl Fn(&Refusal) -> Refusal) {
        let mut config = config.clone();
        for resource in resources(&mut config) {
            let hash = resource.verification.as_ref().and_then(|verification| verification.hash.as_ref());
            if hash.is_some() && resource.source.as_deref().is_some_and(is_url) {
                *resource = newest::Resource::default();
            }
        }
        let object = MachineConfig {
            name: CARRIER.into(),
            metadata: ConfigMetadata::default(),
            spec: MachineConfigSpec::default(),
            ignition: ParsedIgnition { config, unused: Vec::new(), legacy: false },
            replaces_paths: false,
            unknown: Vec::new(),
            document: json!({"spec": {"config": {}}}),
        };
        let refusals = decode::decode(&object).err();
        self.refused.extend(refusals.iter().flat_map(RefusalList::as_slice).map(named));
    }

    /// Verify contents that have a hash, and embed those that were fetched.
    fn embed_contents(&mut self, document: &mut Value) {
        let files = document.pointer_mut("/storage/files").and_then(Value::as_array_mut);
        for (index, file) in files.into_iter().flatten().enumerate() {
            let field = format!("{CARRIER}.storage.files[{index}]");
            let path = file.get("path").and_then(Value::as_str).unwrap_or_default();
            let path = harmless_line(path).into_owned();
            if let Some(resource) = file.get_mut("contents").and_then(Value::as_object_mut) {
                self.embed(resource, &path, &format!("{field}.contents"));
            }
            let fragments = file.get_mut("append").and_then(Value::as_array_mut);
            for (nth, fragment) in fragments.into_iter().flatten().enumerate() {
                if let Some(resource) = fragment.as_object_mut() {
                    self.embed(resource, &path, &format!("{field}.append[{nth}]"));
                }
            }
        }
    }

    fn embed(&mut self, resource: &mut Map<String, Value>, path: &str, field: &str) {
        // A URL without a hash is refused where the file is decoded, as one of another scheme is.
        let Some(reference) = ContentsReference::of(resource).filter(|found| found.hash.is_some()) else {
            return;
        };
        let is_remote = is_url(reference.source);
        let Some(contents) = self.contents(&reference, path, field).filter(|_| is_remote) else { return };
        let embedded = format!("data:;base64,{}", BASE64_STANDARD.encode(contents));
        self.embedded_bytes += embedded.len();
        if self.embedded_bytes > limits::DOCUMENT_BYTES {
            let reason = format!(
                "the contents from URLs, embedded in base64, exceed {} bytes; ship them in the OS image",
                limits::DOCUMENT_BYTES
            );
            return self.refuse(field, reason);
        }
        resource.insert("source".to_owned(), embedded.into());
        for member in ["compression", "httpHeaders"] {
            resource.remove(member);
        }
    }

    /// Return contents as far as they are there, and note them as wanted if not. `field` is that of the resource.
    fn contents(
        &mut self,
        reference: &ContentsReference<'_>,
        purpose: &str,
        field: &str,
    ) -> Option<Cow<'a, [u8]>> {
        let in_hash = format!("{field}.verification.hash");
        let hash = match reference.hash.map(str::parse::<ContentHash>).transpose() {
            Ok(hash) => hash,
            Err(reason) => {
                self.refuse(&in_hash, reason);
                return None;
            }
        };
        if let (true, Some(hash)) = (is_url(reference.source), &hash) {
            return self.fetched(reference, hash, purpose, field).map(Cow::Borrowed);
        }
        let decoded = self.decoder.decode(Some(reference.source), reference.compression);
        let decoded =
            decoded.map_err(|error| self.refuse(&format!("{field}.source"), error.to_string())).ok()?;
        match hash.map(|hash| hash.verify(&decoded)).transpose() {
            Ok(_) => Some(Cow::Owned(decoded)),
            Err(error) => {
                self.refuse(&in_hash, error.to_string());
                None
            }
        }
    }

    fn fetched(
        &mut self,
        reference: &ContentsReference<'_>,
        hash: &ContentHash,
        purpose: &str,
        field: &str,
    ) -> Option<&'a [u8]> {
        if reference.has_headers {
            let reason = "headers are not sent; remove them, and have the server send the contents without";
            self.refuse(&format!("{field}.httpHeaders"), reason);
            return None;
        }
        let is_compressed = match reference.compression {
            None => false,
            Some("gzip") => true,
            Some(_) => {
                self.refuse(
                    &format!("{field}.compression"),
                    "the compression is unknown; `gzip` is accepted",
                );
                return None;
            }
        };
        let url = match ServerUrl::of_contents(reference.source) {
            Ok(url) => url,
            Err(error) => {
                self.refuse(&format!("{field}.source"), error.to_string());
                return None;
            }
        };
        let found = self.remote.get(hash);
        if found.is_none() && !self.wanted.iter().any(|wanted| wanted.hash == *hash) {
            let (purpose, hash) = (purpose.to_owned(), hash.clone());
            self.wanted.push(RemoteSource { purpose, url, hash, is_compressed });
        }
        found
    }
}

/// Iterate over the contents of every file, and over those appended to it.
fn resources(config: &mut newest::Config) -> impl Iterator<Item = &mut newest::Resource> {
    let files = config.storage.iter_mut().flat_map(|storage| &mut storage.files).flatten();
    files.flat_map(|file| file.contents.iter_mut().chain(file.append.iter_mut().flatten()))
}

#[cfg(test)]
mod tests;
