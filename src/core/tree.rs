//! What stands at a path: as observed, and as wanted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::names::ManagedPath;

/// SHA-256 of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest computed elsewhere, as over a file too large to hold.
    #[must_use]
    pub fn from_sha256(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

impl From<ContentDigest> for String {
    fn from(digest: ContentDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const EXPECTED: &str = "a digest is `sha256:` and 64 hexadecimal digits";
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or(EXPECTED)?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| EXPECTED)?;
            let is_hex = pair.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            *byte = u8::from_str_radix(pair, 16).ok().filter(|_| is_hex).ok_or(EXPECTED)?;
        }
        Ok(Self(digest))
    }
}

impl std::fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The type of what stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A device, socket or pipe.
    Other,
}

/// Permission bits and numeric owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Permission bits, `st_mode & 07777`.
    pub mode: u32,
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// What stands at a path, symbolic links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Mode and owner.
        attributes: Attributes,
        /// Digest of its content.
        digest: ContentDigest,
        /// Device and inode: two names of one file share them.
        inode: (u64, u64),
    },
    /// A symbolic link.
    Symlink {
        /// What it points to, as stored.
        target: String,
        /// User and group of the link itself.
        owner: (u32, u32),
    },
    /// A directory; what it holds is listed only where a leaf is to take its place.
    Directory {
        /// Mode and owner.
        attributes: Attributes,
    },
    /// A device, socket or pipe.
    Other,
    /// Unknown: a link above it leaves the root, leads in a circle, or leads nowhere.
    Unreachable,
}

impl Node {
    /// Whether anything stands there.
    #[must_use]
    pub fn exists(&self) -> bool {
        *self != Self::Absent
    }

    /// In a sentence: "a directory stands at …".
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Absent => "nothing",
            Self::File { .. } => "a file",
            Self::Symlink { .. } => "a symbolic link",
            Self::Directory { .. } => "a directory",
            Self::Other => "a device, socket or pipe",
            Self::Unreachable => "something behind a symbolic link that leaves the root or leads nowhere",
        }
    }
}

/// Nodes by path.
pub type Observed = BTreeMap<ManagedPath, Node>;

/// What a configuration wants at a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File {
        /// Its bytes.
        contents: Vec<u8>,
        /// Mode and owner.
        attributes: Attributes,
    },
    /// A symbolic link.
    Symlink {
        /// What it points to.
        target: String,
        /// Owner of the link itself.
        owner: (u32, u32),
    },
    /// Another name of the file at this path.
    HardLink {
        /// The file.
        target: ManagedPath,
    },
    /// A directory.
    Directory {
        /// Mode and owner.
        attributes: Attributes,
    },
    /// Nothing may stand there.
    Absent,
    /// No mask may stand there; anything else may.
    Unmasked,
}

/// In which respect a node is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Deviation {
    /// Nothing is there.
    Missing,
    /// Something is there that should not be.
    Unexpected,
    /// A file where a link should be, and so on.
    Type,
    /// Other bytes.
    Content,
    /// Other permission bits.
    Mode,
    /// Another owner or group.
    Owner,
    /// The link points elsewhere.
    Target,
    /// The unit is enabled or disabled, against the config.
    Enablement,
    /// The password field differs.
    Password,
    /// The boot entry's kernel arguments differ.
    KernelArguments,
}

/// The target of a mask.
pub const MASK: &str = "/dev/null";

impl std::fmt::Debug for Entry {
    // Contents may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { contents, attributes } => {
                write!(f, "a file of {} bytes, {attributes:?}", contents.len())
            }
            Self::Symlink { target, owner } => write!(f, "a link to {target}, of {owner:?}"),
            Self::HardLink { target } => write!(f, "another name of {target}"),
            Self::Directory { attributes } => write!(f, "a directory, {attributes:?}"),
            Self::Absent => f.write_str("nothing"),
            Self::Unmasked => f.write_str("no mask"),
        }
    }
}

impl Entry {
    /// How `node` deviates from this entry; `None` where it does not.
    #[must_use]
    pub fn deviation(&self, node: &Node, observed: &Observed) -> Option<Deviation> {
        match (self, node) {
            (Self::Absent, Node::Absent) => None,
            (Self::Absent, _) => Some(Deviation::Unexpected),
            (Self::Unmasked, Node::Symlink { target, .. }) if target == MASK => Some(Deviation::Unexpected),
            (Self::Unmasked, _) => None,
            (_, Node::Absent) => Some(Deviation::Missing),
            (Self::File { contents, attributes }, Node::File { attributes: found, digest, .. }) => {
                if *digest == ContentDigest::of(contents) {
                    attributes.deviation(found)
                } else {
                    Some(Deviation::Content)
                }
            }
            (Self::Symlink { target, owner }, Node::Symlink { target: found, owner: found_owner }) => {
                if target != found {
                    return Some(Deviation::Target);
                }
                (owner != found_owner).then_some(Deviation::Owner)
            }
            (Self::Directory { attributes }, Node::Directory { attributes: found }) => {
                attributes.deviation(found)
            }
            (Self::HardLink { target }, Node::File { inode, .. }) => match observed.get(target) {
                Some(Node::File { inode: other, .. }) if inode == other => None,
                _ => Some(Deviation::Target),
            },
            _ => Some(Deviation::Type),
        }
    }

    /// Whether the entry stands in its directory: it takes the path for itself.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Symlink { .. } | Self::HardLink { .. })
    }
}

impl Attributes {
    fn deviation(&self, found: &Self) -> Option<Deviation> {
        if self.mode != found.mode {
            Some(Deviation::Mode)
        } else if (self.uid, self.gid) != (found.uid, found.gid) {
            Some(Deviation::Owner)
        } else {
            None
        }
    }
}
