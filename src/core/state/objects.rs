//! Object store for managed files outside `/etc`. These files lie in `/var`, which all deployments share;
//! early in boot, activation makes them match the booted deployment's generation.
//!
//! An object is a file named by the SHA-256 digest of its bytes. It is either the content of a managed file,
//! or a manifest that maps paths to contents. A generation's record names its manifest, so generations share
//! equal objects, and an object that no deployment's manifest refers to is garbage.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::core::config::managed_files::ManagedFiles;
use crate::core::state::own_document;
use crate::core::state::own_document::{DocumentError, UpgradeStep, next_schema};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{ContentDigest, FileAttributes, FileEntry};

/// Directory of the objects.
pub const OBJECTS: &str = "/var/lib/flameholder/objects";
/// Path of the document that names the active manifest.
pub const ACTIVE: &str = "/var/lib/flameholder/active";

/// Schema of [`Manifest`] and [`ActiveManifest`] that this release writes. It also reads older ones.
pub const SCHEMA: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade either, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Managed paths of one generation outside `/etc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema: u32,
    /// Profile that the configuration was applied with.
    pub profile: Profile,
    /// Desired entry of each managed path.
    pub entries: BTreeMap<ManagedPath, ManifestEntry>,
    /// Mode and owner of parent directories, used where they have to be created.
    pub owned_parents: BTreeMap<ManagedPath, FileAttributes>,
    /// SELinux labels of the paths and of the directories above them, without the terminating NUL. Empty where
    /// the deployment has no policy, or where an earlier release wrote the manifest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<ManagedPath, String>,
}

/// Desired entry of one managed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ManifestEntry {
    /// File whose content is the object `digest`.
    File {
        digest: ContentDigest,
        attributes: FileAttributes,
    },
    Symlink {
        target: String,
        /// User and group of the link itself.
        owner: (u32, u32),
    },
    HardLink {
        /// Path of the file that the link is another name of.
        target: ManagedPath,
    },
    Directory {
        attributes: FileAttributes,
    },
    /// Path that must not exist.
    Absent,
}

/// Manifest that `/var` matches now, with the data needed to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveManifest {
    pub schema: u32,
    /// Digest of the manifest; absent where nothing outside `/etc` is managed.
    pub manifest: Option<ContentDigest>,
    /// Paths that have a stored pre-image.
    pub originals: Vec<ManagedPath>,
    /// Directories created for managed paths below them, removed with the last of those.
    pub created_directories: Vec<ManagedPath>,
    /// Deployment that booted last; absent on a tree without OSTree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_booted: Option<LastBooted>,
    /// Paths of generations before that are still to be removed: an activation left them out, because a mount was missing
    /// or the file system refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remaining: BTreeMap<ManagedPath, ManifestEntry>,
}

/// Deployment that booted last, and the newest generation that ever booted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBooted {
    pub deployment: DeploymentId,
    pub generation: GenerationId,
    /// Greatest sequence number among all generations that booted.
    pub latest: u64,
}

/// Reason why a document or object of the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Document that does not parse.
    #[error("reading {path}")]
    Malformed {
        path: ManagedPath,
        #[source]
        source: serde_json::Error,
    },
    /// Document that a newer release wrote.
    #[error(
        "{path} has schema {schema}, and this release reads schemas up to {SCHEMA}; use the release that wrote it"
    )]
    Schema { path: ManagedPath, schema: u32 },
    /// Object that a manifest or record refers to, but that does not exist.
    #[error(
        "a generation needs the object {path}, which is missing; apply the generation's configuration again"
    )]
    Missing { path: ManagedPath },
    /// Object whose content does not match the digest in its name.
    #[error(
        "the object {path} is damaged: its content does not match the digest in its name; remove the file and apply the configuration again"
    )]
    Damaged { path: ManagedPath },
}

impl Manifest {
    /// Build the manifest of `managed`, and the objects that its files need, by digest.
    #[must_use]
    pub fn of(managed: &ManagedFiles, profile: Profile) -> (Self, BTreeMap<ContentDigest, Vec<u8>>) {
        let mut objects = BTreeMap::new();
        let mut entries = BTreeMap::new();
        for (path, entry) in &managed.entries {
            let stored = match entry.clone() {
                FileEntry::File { contents, attributes } => {
                    let digest = ContentDigest::of(&contents);
                    objects.insert(digest, contents);
                    ManifestEntry::File { digest, attributes }
                }
                FileEntry::Symlink { target, owner } => ManifestEntry::Symlink { target, owner },
                FileEntry::HardLink { target } => ManifestEntry::HardLink { target },
                FileEntry::Directory { attributes } => ManifestEntry::Directory { attributes },
                FileEntry::Absent | FileEntry::AbsentOrEmpty { .. } => ManifestEntry::Absent,
                // Masks are links below `/etc`, and never part of a manifest.
                FileEntry::Unmasked => continue,
            };
            entries.insert(path.clone(), stored);
        }
        let parents = managed.owned_parents.iter();
        let above = |directory: &ManagedPath| entries.keys().any(|path| path.is_within(directory.as_str()));
        let owned_parents = parents.filter(|(directory, _)| above(directory));
        let owned_parents = owned_parents.map(|(path, attributes)| (path.clone(), *attributes)).collect();
        (Self { schema: SCHEMA, profile, entries, owned_parents, labels: BTreeMap::new() }, objects)
    }

    /// Add the labels in `labels` that are about files, links and directories of the manifest, or about
    /// directories above them.
    #[must_use]
    pub fn labelled(mut self, labels: &BTreeMap<ManagedPath, String>) -> Self {
        let named = self.entries.iter().filter(|(_, entry)| {
            // A hard link has the label of its file.
            !matches!(entry, ManifestEntry::Absent | ManifestEntry::HardLink { .. })
        });
        let named: BTreeSet<ManagedPath> =
            named.flat_map(|(path, _)| path.ancestors().chain([path.clone()])).collect();
        let labels = labels.iter().filter(|(path, _)| named.contains(*path));
        self.labels = labels.map(|(path, label)| (path.clone(), label.clone())).collect();
        self
    }

    /// Return the labels that the disk is compared with: those of files and links. A directory keeps the label
    /// that it was created with.
    #[must_use]
    pub fn compared_labels(&self) -> BTreeMap<ManagedPath, String> {
        let mut labels = self.labels.clone();
        labels.retain(|path, _| {
            matches!(self.entries.get(path), Some(ManifestEntry::File { .. } | ManifestEntry::Symlink { .. }))
        });
        labels
    }

    /// Return the managed files of this manifest, taking their contents from `contents`.
    #[must_use]
    pub fn managed(&self, contents: &BTreeMap<ContentDigest, Vec<u8>>) -> ManagedFiles {
        ManagedFiles {
            entries: file_entries(&self.entries, contents).collect(),
            owned_parents: self.owned_parents.clone(),
            unsupported: Vec::new(),
            deferred: Vec::new(),
        }
    }

    /// List the digests of the manifest's file contents.
    pub fn objects(&self) -> impl Iterator<Item = ContentDigest> {
        self.entries.values().filter_map(|stored| match stored {
            ManifestEntry::File { digest, .. } => Some(*digest),
            _ => None,
        })
    }

    /// Render the manifest as one line of JSON; equal manifests render to equal bytes.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Parse the manifest that is stored as object `digest`.
    pub fn parse(digest: ContentDigest, bytes: &[u8]) -> Result<Self, StoreError> {
        parse(&object_path(digest), bytes)
    }
}

impl ActiveManifest {
    /// Describe `manifest` as active where another tool (Ignition, MCD) put its files in place: no pre-images
    /// and no created directories are known.
    #[must_use]
    pub fn adopted(manifest: Option<ContentDigest>) -> Self {
        Self {
            schema: SCHEMA,
            manifest,
            originals: Vec::new(),
            created_directories: Vec::new(),
            last_booted: None,
            remaining: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, StoreError> {
        parse(&ManagedPath::constant(ACTIVE), bytes)
    }
}

/// Return the entries as managed files have them, taking their contents from `contents`: a file without any is empty.
pub fn file_entries(
    entries: &BTreeMap<ManagedPath, ManifestEntry>,
    contents: &BTreeMap<ContentDigest, Vec<u8>>,
) -> impl Iterator<Item = (ManagedPath, FileEntry)> {
    let entry = |stored: &ManifestEntry| match stored.clone() {
        ManifestEntry::File { digest, attributes } => {
            FileEntry::File { contents: contents.get(&digest).cloned().unwrap_or_default(), attributes }
        }
        ManifestEntry::Symlink { target, owner } => FileEntry::Symlink { target, owner },
        ManifestEntry::HardLink { target } => FileEntry::HardLink { target },
        ManifestEntry::Directory { attributes } => FileEntry::Directory { attributes },
        ManifestEntry::Absent => FileEntry::Absent,
    };
    entries.iter().map(move |(path, stored)| (path.clone(), entry(stored)))
}

/// Return the path of the object with this digest.
#[must_use]
pub fn object_path(digest: ContentDigest) -> ManagedPath {
    let name = digest.to_string();
    ManagedPath::constant(OBJECTS).join(name.trim_start_matches("sha256:"))
}

/// Return the stored objects to remove: neither a manifest in `live`, nor listed by one.
#[must_use]
pub fn unreferenced_objects(
    stored: &BTreeSet<ManagedPath>,
    live: &BTreeMap<ContentDigest, Manifest>,
) -> BTreeSet<ManagedPath> {
    let manifests = live.keys().copied();
    let needed = manifests.chain(live.values().flat_map(Manifest::objects)).map(object_path);
    let needed: BTreeSet<ManagedPath> = needed.collect();
    stored.difference(&needed).cloned().collect()
}

fn parse<T: DeserializeOwned>(path: &ManagedPath, bytes: &[u8]) -> Result<T, StoreError> {
    own_document::parse(bytes, SCHEMA, UPGRADES).map_err(|unreadable| match unreadable {
        DocumentError::Malformed(source) => StoreError::Malformed { path: path.clone(), source },
        DocumentError::Schema(schema) => StoreError::Schema { path: path.clone(), schema },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Manifest in the format before it had labels.
    const WITHOUT_LABELS: &str = r#"{"schema":1,"profile":"native","entries":{"/var/a":{"type":"file","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","attributes":{"mode":420,"uid":0,"gid":0}},"/var/b/hard":{"type":"hardLink","target":"/var/a"},"/var/c/soft":{"type":"symlink","target":"a","owner":[0,0]},"/var/d":{"type":"directory","attributes":{"mode":493,"uid":0,"gid":0}},"/var/e":{"type":"absent"}},"ownedParents":{}}"#;

    fn parsed(text: &str) -> Manifest {
        Manifest::parse(ContentDigest::of(text.as_bytes()), text.as_bytes()).unwrap()
    }

    fn labels(paths: &[&str]) -> BTreeMap<ManagedPath, String> {
        paths.iter().map(|path| (ManagedPath::constant(path), format!("{path}_t"))).collect()
    }

    #[test]
    fn manifest_without_labels_renders_as_before_there_were_any() {
        let manifest = parsed(WITHOUT_LABELS);
        assert_eq!(manifest.labels, BTreeMap::new());
        assert_eq!(manifest.render(), format!("{WITHOUT_LABELS}\n").into_bytes());
        assert_eq!(manifest.clone().labelled(&BTreeMap::new()), manifest);
    }

    #[test]
    fn labels_are_kept_of_manifest_paths_and_directories_above() {
        let all = [
            "/etc/x",
            "/var",
            "/var/a",
            "/var/b",
            "/var/b/hard",
            "/var/c",
            "/var/c/soft",
            "/var/d",
            "/var/e",
        ];
        let manifest = parsed(WITHOUT_LABELS).labelled(&labels(&all));
        let kept = ["/var", "/var/a", "/var/c", "/var/c/soft", "/var/d"];
        assert_eq!(manifest.labels, labels(&kept));
        assert_eq!(manifest.compared_labels(), labels(&["/var/a", "/var/c/soft"]));
        let text = String::from_utf8(manifest.render()).unwrap();
        assert_eq!(parsed(&text), manifest);
        assert_eq!(manifest.clone().labelled(&labels(&kept)).render(), manifest.render());
    }
}
