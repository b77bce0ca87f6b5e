//! The state of one path: as observed, as configured, and the drift between the two.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::names::ManagedPath;
use super::xattrs::XattrSummary;

/// SHA-256 of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Wrap a digest that was computed while streaming, for a file too large to hold in memory.
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

/// The file type of a path, from `st_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Symlink,
    Directory,
    /// A device, socket or pipe.
    Other,
}

/// Permission bits and numeric owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAttributes {
    /// Permission bits, `st_mode & 07777`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The observed state of a path; symbolic links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathState {
    Absent,
    File {
        attributes: FileAttributes,
        digest: ContentDigest,
        /// Size in bytes.
        size: u64,
        /// Device and inode number; hard links to one file share both.
        inode: (u64, u64),
        extended: XattrSummary,
    },
    Symlink {
        /// The link's target as stored.
        target: String,
        /// User and group number of the link itself.
        owner: (u32, u32),
        extended: XattrSummary,
    },
    /// A directory. Its entries are observed only where a file or link is to replace it.
    Directory {
        attributes: FileAttributes,
        extended: XattrSummary,
    },
    /// A device, socket or pipe.
    Other,
    /// A parent directory is a symbolic link that leaves the root, leads in a circle, or is dangling.
    Unreachable,
}

impl PathState {
    /// True if both are absent, or have the same content or target, whatever their attributes.
    #[must_use]
    pub fn is_same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { digest, .. }, Self::File { digest: other, .. }) => digest == other,
            (Self::Symlink { target, .. }, Self::Symlink { target: other, .. }) => target == other,
            (Self::Absent, Self::Absent) => true,
            _ => false,
        }
    }

    /// True unless the path is absent.
    #[must_use]
    pub fn exists(&self) -> bool {
        *self != Self::Absent
    }

    /// True if the path exists with an SELinux label other than `recorded`, or without one.
    #[must_use]
    pub fn is_mislabelled(&self, recorded: &str) -> bool {
        self.extended().is_some_and(|extended| extended.label.as_deref() != Some(recorded))
    }

    /// The SELinux label; `None` without one.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.extended().and_then(|extended| extended.label.as_deref())
    }

    fn extended(&self) -> Option<&XattrSummary> {
        match self {
            Self::File { extended, .. }
            | Self::Symlink { extended, .. }
            | Self::Directory { extended, .. } => Some(extended),
            Self::Absent | Self::Other | Self::Unreachable => None,
        }
    }

    /// The state as part of a message: "PATH is a directory".
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Absent => "nothing",
            Self::File { .. } => "a file",
            Self::Symlink { .. } => "a symbolic link",
            Self::Directory { .. } => "a directory",
            Self::Other => "a device, socket or pipe",
            Self::Unreachable => "a path behind a symbolic link that leaves the root or is dangling",
        }
    }
}

/// Observed states by path.
pub type ObservedPaths = BTreeMap<ManagedPath, PathState>;

/// The state of a path that the desired config asks for.
#[derive(Clone, PartialEq, Eq)]
pub enum FileEntry {
    File {
        contents: Vec<u8>,
        attributes: FileAttributes,
    },
    Symlink {
        target: String,
        /// User and group number of the link itself.
        owner: (u32, u32),
    },
    /// A hard link to the file at `target`.
    HardLink {
        target: ManagedPath,
    },
    Directory {
        attributes: FileAttributes,
    },
    /// No file may exist at the path: a unit without contents that must not be masked.
    Absent,
    /// No content may exist at the path: an empty drop-in, whose file MCD removes and Ignition writes, or a key file without keys,
    /// which MCD writes and Ignition does not.
    AbsentOrEmpty {
        /// Mode and owner of an empty file.
        attributes: FileAttributes,
    },
    /// The path must not be a mask (a link to `/dev/null`); anything else may be there.
    Unmasked,
}

/// The kind of drift of one path: the respect in which the disk differs from the desired config or the
/// record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DriftKind {
    /// The path does not exist.
    Missing,
    /// The path exists but must not.
    Unexpected,
    /// The path has another file type, such as a file instead of a link.
    Type,
    Content,
    Mode,
    /// Another user or group.
    Owner,
    /// Foreign extended attributes: access lists, capabilities, `user.` attributes (see [`super::xattrs`]).
    Xattrs,
    /// Another SELinux label than the one recorded when the file was written.
    Label,
    /// Another link target.
    Target,
    /// Enablement links that contradict the config.
    Enablement,
    /// Another password hash of the user `core` in `/etc/shadow`.
    Password,
    /// A boot entry without the configured kernel arguments, or with another order.
    KernelArguments,
    /// A kernel that is not in the configured FIPS mode.
    FipsMode,
}

impl std::fmt::Display for DriftKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Unexpected => "should not exist",
            Self::Type => "is of another type",
            Self::Content => "has other content",
            Self::Mode => "has another mode",
            Self::Owner => "has another owner",
            Self::Xattrs => "has extended attributes that it should not have (`getfattr -d -m -` shows them)",
            Self::Label => "has another SELinux label",
            Self::Target => "points to another target",
            Self::Enablement => "enables or disables a unit contrary to the configuration",
            Self::Password => "has another password hash for core",
            Self::KernelArguments => {
                "belongs to a boot entry that lacks kernel arguments, or has them in another order"
            }
            Self::FipsMode => "belongs to a config for another FIPS mode than the kernel's",
        })
    }
}

/// The link target that masks a unit.
pub const MASK: &str = "/dev/null";

impl std::fmt::Debug for FileEntry {
    // Contents may be a secret, and debug output ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { contents, attributes } => {
                write!(f, "a file of {} bytes, {attributes:?}", contents.len())
            }
            Self::Symlink { target, owner } => write!(f, "a link to {target}, of {owner:?}"),
            Self::HardLink { target } => write!(f, "another name of {target}"),
            Self::Directory { attributes } => write!(f, "a directory, {attributes:?}"),
            Self::Absent => f.write_str("nothing"),
            Self::AbsentOrEmpty { attributes } => write!(f, "nothing, or an empty file, {attributes:?}"),
            Self::Unmasked => f.write_str("no mask"),
        }
    }
}

impl FileEntry {
    /// Compare the observed state of a path with this entry and return the first kind of drift; `None` if
    /// they agree. `observed` is consulted for the target of a hard link.
    #[must_use]
    pub fn drift(&self, node: &PathState, observed: &ObservedPaths) -> Option<DriftKind> {
        match (self, node) {
            (Self::Absent | Self::AbsentOrEmpty { .. }, PathState::Absent) => None,
            (
                Self::AbsentOrEmpty { attributes },
                PathState::File { size: 0, attributes: found, extended, .. },
            ) => attributes.drift(found, extended).and(Some(DriftKind::Unexpected)),
            (Self::Absent | Self::AbsentOrEmpty { .. }, _) => Some(DriftKind::Unexpected),
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
                    attributes.drift(found, extended)
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
                attributes.drift(found, extended)
            }
            (Self::HardLink { target }, PathState::File { inode, .. }) => match observed.get(target) {
                Some(PathState::File { inode: other, .. }) if inode == other => None,
                _ => Some(DriftKind::Target),
            },
            _ => Some(DriftKind::Type),
        }
    }

    /// Compare mode, owner and extended attributes of a file, whatever its content; `None` if they agree.
    #[must_use]
    pub fn attribute_drift(&self, node: &PathState) -> Option<DriftKind> {
        match (self, node) {
            (Self::File { attributes, .. }, PathState::File { attributes: found, extended, .. }) => {
                attributes.drift(found, extended)
            }
            _ => None,
        }
    }

    /// True if the entry occupies its path itself, so that no other entry can lie below it.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Symlink { .. } | Self::HardLink { .. })
    }
}

impl FileAttributes {
    fn drift(&self, found: &Self, extended: &XattrSummary) -> Option<DriftKind> {
        if self.mode != found.mode {
            Some(DriftKind::Mode)
        } else if (self.uid, self.gid) != (found.uid, found.gid) {
            Some(DriftKind::Owner)
        } else {
            extended.foreign.then_some(DriftKind::Xattrs)
        }
    }
}

/// Addition, modification or removal of one item (file, unit, key, kernel argument).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Listed by the desired config only.
    Add,
    /// Listed by both configs, with a difference.
    Modify,
    /// Listed by the current config only.
    Remove,
}

#[cfg(test)]
mod tests;
