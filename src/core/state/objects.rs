//! What a generation has outside `/etc`, in the `/var` that all deployments share: kept in a store
//! under the digest of its content, and made to match the deployment that boots.
//!
//! The store is a folder of objects, each named by the SHA-256 of its bytes: the contents of files,
//! and manifests that say which of them belongs where. A record names its manifest, so equal parts
//! of generations are one, and whatever no manifest of a deployment leads to is garbage.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::core::config::managed_files::ManagedFiles;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::names::ManagedPath;
use crate::core::values::own_document;
use crate::core::values::own_document::DocumentError;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{ContentDigest, FileAttributes, FileEntry};

/// Where the objects lie.
pub const OBJECTS: &str = "/var/lib/flameholder/objects";
/// Which manifest `/var` matches.
pub const ACTIVE: &str = "/var/lib/flameholder/active";

/// The version of manifests and of [`ActiveManifest`] that this release writes, and the only one it reads.
pub const SCHEMA: u32 = 1;

/// What belongs where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// [`SCHEMA`] of the release that wrote it.
    pub schema: u32,
    /// The profile that its configuration was applied with.
    pub profile: Profile,
    /// What is wanted, by path.
    pub entries: BTreeMap<ManagedPath, ManifestEntry>,
    /// Directories that get an owner of their own where they have to be made.
    pub owned_parents: BTreeMap<ManagedPath, FileAttributes>,
}

/// One path of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ManifestEntry {
    /// A file, whose content is an object.
    File {
        /// The object.
        digest: ContentDigest,
        /// Mode and owner.
        attributes: FileAttributes,
    },
    /// A symbolic link.
    Symlink {
        /// What it points to.
        target: String,
        /// User and group of the link itself.
        owner: (u32, u32),
    },
    /// Another name of a file.
    HardLink {
        /// The file.
        target: ManagedPath,
    },
    /// A directory.
    Directory {
        /// Mode and owner.
        attributes: FileAttributes,
    },
    /// Nothing may stand there.
    Absent,
}

/// Which manifest `/var` matches, and how the way back from it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveManifest {
    /// [`SCHEMA`] of the release that wrote it.
    pub schema: u32,
    /// The manifest; absent where nothing outside `/etc` is managed.
    pub manifest: Option<ContentDigest>,
    /// Paths of which a pre-image is kept.
    pub originals: Vec<ManagedPath>,
    /// Directories that exist only because something below them was applied.
    pub created_directories: Vec<ManagedPath>,
    /// The deployment that ran last; absent on a tree without OSTree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<LastBooted>,
}

/// Which deployment ran last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBooted {
    /// Its name.
    pub deployment: DeploymentId,
    /// Its generation.
    pub generation: String,
    /// The greatest sequence number of all generations that ran.
    pub latest: u64,
}

/// Why something in the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A document that does not parse.
    #[error("reading {path}")]
    Malformed {
        /// Where it lies.
        path: ManagedPath,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// Another release's.
    #[error("{path} has schema {schema} and this release reads {SCHEMA}; use the release that wrote it")]
    Schema {
        /// Where it lies.
        path: ManagedPath,
        /// Its schema.
        schema: u32,
    },
    /// An object that is not there.
    #[error("the object {path} is missing, which a generation needs; apply its configuration again")]
    Missing {
        /// Where it should lie.
        path: ManagedPath,
    },
    /// An object that is not what its name says.
    #[error(
        "the object {path} is damaged: its content has another digest; remove it and apply the configuration again"
    )]
    Damaged {
        /// Where it lies.
        path: ManagedPath,
    },
}

impl Manifest {
    /// The manifest of what `managed` wants, and the objects that it needs by digest.
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
                FileEntry::Absent => ManifestEntry::Absent,
                // Masks are systemd's, below `/etc`.
                FileEntry::Unmasked => continue,
            };
            entries.insert(path.clone(), stored);
        }
        let parents = managed.owned_parents.iter();
        let above = |directory: &ManagedPath| entries.keys().any(|path| path.is_within(directory.as_str()));
        let owned_parents = parents.filter(|(directory, _)| above(directory));
        let owned_parents = owned_parents.map(|(path, attributes)| (path.clone(), *attributes)).collect();
        (Self { schema: SCHEMA, profile, entries, owned_parents }, objects)
    }

    /// What it wants, with the contents that `contents` has for its files.
    #[must_use]
    pub fn managed(&self, contents: &BTreeMap<ContentDigest, Vec<u8>>) -> ManagedFiles {
        let entry = |stored: &ManifestEntry| match stored.clone() {
            ManifestEntry::File { digest, attributes } => {
                FileEntry::File { contents: contents.get(&digest).cloned().unwrap_or_default(), attributes }
            }
            ManifestEntry::Symlink { target, owner } => FileEntry::Symlink { target, owner },
            ManifestEntry::HardLink { target } => FileEntry::HardLink { target },
            ManifestEntry::Directory { attributes } => FileEntry::Directory { attributes },
            ManifestEntry::Absent => FileEntry::Absent,
        };
        let entries = self.entries.iter().map(|(path, stored)| (path.clone(), entry(stored))).collect();
        ManagedFiles { entries, owned_parents: self.owned_parents.clone(), left_out: Vec::new() }
    }

    /// The objects that its files need.
    pub fn objects(&self) -> impl Iterator<Item = ContentDigest> {
        self.entries.values().filter_map(|stored| match stored {
            ManifestEntry::File { digest, .. } => Some(*digest),
            _ => None,
        })
    }

    /// The manifest as it is stored: one line of JSON, the same for equal manifests.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Reads the manifest that is stored as `digest`.
    pub fn parse(digest: ContentDigest, bytes: &[u8]) -> Result<Self, StoreError> {
        parse(&object(digest), bytes)
    }
}

impl ActiveManifest {
    /// This manifest, put in place by somebody who did it on our behalf.
    #[must_use]
    pub fn adopted(manifest: Option<ContentDigest>) -> Self {
        Self { schema: SCHEMA, manifest, originals: Vec::new(), created_directories: Vec::new(), ran: None }
    }

    /// The document as it is stored: one line of JSON.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Reads it.
    pub fn parse(bytes: &[u8]) -> Result<Self, StoreError> {
        parse(&ManagedPath::constant(ACTIVE), bytes)
    }
}

/// Where the object with this digest lies.
#[must_use]
pub fn object(digest: ContentDigest) -> ManagedPath {
    let name = digest.to_string();
    ManagedPath::constant(OBJECTS).join(name.trim_start_matches("sha256:"))
}

/// The stored objects that nothing leads to: neither the manifests `live`, nor what they list.
#[must_use]
pub fn garbage(
    stored: &BTreeSet<ManagedPath>,
    live: &BTreeMap<ContentDigest, Manifest>,
) -> BTreeSet<ManagedPath> {
    let manifests = live.keys().copied();
    let needed = manifests.chain(live.values().flat_map(Manifest::objects)).map(object);
    let needed: BTreeSet<ManagedPath> = needed.collect();
    stored.difference(&needed).cloned().collect()
}

fn parse<T: DeserializeOwned>(path: &ManagedPath, bytes: &[u8]) -> Result<T, StoreError> {
    own_document::parse(bytes, SCHEMA).map_err(|unreadable| match unreadable {
        DocumentError::Malformed(source) => StoreError::Malformed { path: path.clone(), source },
        DocumentError::Schema(schema) => StoreError::Schema { path: path.clone(), schema },
    })
}
