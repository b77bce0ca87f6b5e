//! What stands at a path: as observed, and as wanted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::names::ManagedPath;
use super::xattrs::XattrSummary;

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
pub enum FileKind {
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
pub struct FileAttributes {
    /// Permission bits, `st_mode & 07777`.
    pub mode: u32,
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// What stands at a path, symbolic links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Mode and owner.
        attributes: FileAttributes,
        /// Digest of its content.
        digest: ContentDigest,
        /// Device and inode: two names of one file share them.
        inode: (u64, u64),
        /// Extended attributes.
        extended: XattrSummary,
    },
    /// A symbolic link.
    Symlink {
        /// What it points to, as stored.
        target: String,
        /// User and group of the link itself.
        owner: (u32, u32),
        /// Extended attributes.
        extended: XattrSummary,
    },
    /// A directory; what it holds is listed only where a leaf is to take its place.
    Directory {
        /// Mode and owner.
        attributes: FileAttributes,
        /// Extended attributes.
        extended: XattrSummary,
    },
    /// A device, socket or pipe.
    Other,
    /// Unknown: a link above it leaves the root, leads in a circle, or leads nowhere.
    Unreachable,
}

impl PathState {
    /// Whether anything stands there.
    #[must_use]
    pub fn exists(&self) -> bool {
        *self != Self::Absent
    }

    /// Whether something stands there with another SELinux label than `recorded`, or with none.
    #[must_use]
    pub fn is_mislabelled(&self, recorded: &str) -> bool {
        match self {
            Self::File { extended, .. }
            | Self::Symlink { extended, .. }
            | Self::Directory { extended, .. } => extended.label.as_deref() != Some(recorded),
            Self::Absent | Self::Other | Self::Unreachable => false,
        }
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
pub type ObservedPaths = BTreeMap<ManagedPath, PathState>;

/// What a configuration wants at a path.
#[derive(Clone, PartialEq, Eq)]
pub enum FileEntry {
    /// A regular file.
    File {
        /// Its bytes.
        contents: Vec<u8>,
        /// Mode and owner.
        attributes: FileAttributes,
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
        attributes: FileAttributes,
    },
    /// Nothing may stand there.
    Absent,
    /// No mask may stand there; anything else may.
    Unmasked,
}

/// In which respect a node is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DriftKind {
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
    /// It has extended attributes that no apply gives: access lists, capabilities, notes.
    Xattrs,
    /// Another SELinux label than the apply gave it.
    Label,
    /// The link points elsewhere.
    Target,
    /// The unit is enabled or disabled, against the config.
    Enablement,
    /// The password field differs.
    Password,
    /// The boot entry's kernel arguments differ.
    KernelArguments,
}

impl std::fmt::Display for DriftKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Unexpected => "should not be there",
            Self::Type => "is of another type",
            Self::Content => "has other content",
            Self::Mode => "has another mode",
            Self::Owner => "has another owner",
            Self::Xattrs => "has extended attributes that it should not have (`getfattr -d -m -` shows them)",
            Self::Label => "has another SELinux label",
            Self::Target => "points elsewhere",
            Self::Enablement => "enables or disables a unit against the configuration",
            Self::Password => "has another password hash for core",
            Self::KernelArguments => {
                "the boot entry lacks configured kernel arguments, or has them in another order"
            }
        })
    }
}

/// The target of a mask.
pub const MASK: &str = "/dev/null";

impl std::fmt::Debug for FileEntry {
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

impl FileEntry {
    /// How `node` deviates from this entry; `None` where it does not.
    #[must_use]
    pub fn deviation(&self, node: &PathState, observed: &ObservedPaths) -> Option<DriftKind> {
        match (self, node) {
            (Self::Absent, PathState::Absent) => None,
            (Self::Absent, _) => Some(DriftKind::Unexpected),
            (Self::Unmasked, PathState::Symlink { target, .. }) if target == MASK => {
                Some(DriftKind::Unexpected)
            }
            (Self::Unmasked, _) => None,
            (_, PathState::Absent) => Some(DriftKind::Missing),
            (
                Self::File { contents, attributes },
                PathState::File { attributes: found, digest, extended, .. },
            ) => {
                if *digest == ContentDigest::of(contents) {
                    attributes.deviation(found, extended)
                } else {
                    Some(DriftKind::Content)
                }
            }
            (
                Self::Symlink { target, owner },
                PathState::Symlink { target: found, owner: found_owner, .. },
            ) => {
                if target != found {
                    return Some(DriftKind::Target);
                }
                (owner != found_owner).then_some(DriftKind::Owner)
            }
            (Self::Directory { attributes }, PathState::Directory { attributes: found, extended }) => {
                attributes.deviation(found, extended)
            }
            (Self::HardLink { target }, PathState::File { inode, .. }) => match observed.get(target) {
                Some(PathState::File { inode: other, .. }) if inode == other => None,
                _ => Some(DriftKind::Target),
            },
            _ => Some(DriftKind::Type),
        }
    }

    /// Whether the entry stands in its directory: it takes the path for itself.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Symlink { .. } | Self::HardLink { .. })
    }
}

impl FileAttributes {
    fn deviation(&self, found: &Self, extended: &XattrSummary) -> Option<DriftKind> {
        if self.mode != found.mode {
            Some(DriftKind::Mode)
        } else if (self.uid, self.gid) != (found.uid, found.gid) {
            Some(DriftKind::Owner)
        } else {
            extended.foreign.then_some(DriftKind::Xattrs)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTRIBUTES: FileAttributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };

    fn file(mode: u32, contents: &[u8], foreign: bool) -> PathState {
        let extended = XattrSummary { label: None, foreign };
        let (attributes, digest) = (FileAttributes { mode, ..ATTRIBUTES }, ContentDigest::of(contents));
        PathState::File { attributes, digest, inode: (1, 1), extended }
    }

    #[test]
    fn foreign_attributes_deviate_where_nothing_else_does() {
        let wanted = FileEntry::File { contents: b"x".to_vec(), attributes: ATTRIBUTES };
        for (node, deviation) in [
            (file(0o644, b"x", false), None),
            (file(0o644, b"x", true), Some(DriftKind::Xattrs)),
            (file(0o600, b"x", true), Some(DriftKind::Mode)),
            (file(0o644, b"y", true), Some(DriftKind::Content)),
        ] {
            assert_eq!(wanted.deviation(&node, &ObservedPaths::new()), deviation, "{node:?}");
        }
        let directory = FileEntry::Directory { attributes: ATTRIBUTES };
        let extended = XattrSummary { label: None, foreign: true };
        let node = PathState::Directory { attributes: ATTRIBUTES, extended };
        assert_eq!(directory.deviation(&node, &ObservedPaths::new()), Some(DriftKind::Xattrs));
    }

    #[test]
    fn a_label_is_wrong_only_where_something_stands() {
        let labelled = |label: Option<&str>| {
            let extended = XattrSummary { label: label.map(str::to_owned), foreign: false };
            PathState::Directory { attributes: ATTRIBUTES, extended }
        };
        assert!(!labelled(Some("etc_t")).is_mislabelled("etc_t"));
        assert!(labelled(Some("tmp_t")).is_mislabelled("etc_t"));
        assert!(labelled(None).is_mislabelled("etc_t"));
        assert!(!PathState::Absent.is_mislabelled("etc_t") && !PathState::Other.is_mislabelled("etc_t"));
    }
}
