//! Redacted differences of drifted paths: sizes, modes, owners and targets, never contents.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::values::tree::{DriftKind, FileAttributes, FileEntry, PathState};

/// Difference of a drifted path, without contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct DriftDifference {
    /// Expected value: size in bytes, octal mode, `UID:GID`, link target, SELinux label, kind of file, or kernel
    /// arguments.
    pub expected: String,
    /// Value that was found instead, in the same notation.
    pub found: String,
}

impl DriftDifference {
    /// Difference between two values.
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into() }
    }

    /// Describe the difference of kind `kind` between `entry` and the observed `node`; `None` where the kind says
    /// everything.
    #[must_use]
    pub fn of_entry(kind: DriftKind, entry: &FileEntry, node: &PathState) -> Option<Self> {
        match kind {
            DriftKind::Content => match (entry, node) {
                (FileEntry::File { contents, .. }, PathState::File { size, .. }) => {
                    let is_as_long = *size == contents.len() as u64;
                    let found = if is_as_long { format!("{size} other bytes") } else { bytes(*size) };
                    Some(Self::new(bytes(contents.len() as u64), found))
                }
                _ => None,
            },
            DriftKind::Mode => {
                let mode = |attributes: FileAttributes| format!("{:04o}", attributes.mode);
                Some(Self::new(mode(expected_attributes(entry)?), mode(found_attributes(node)?)))
            }
            DriftKind::Owner => {
                let owner = |(uid, gid)| format!("{uid}:{gid}");
                Some(Self::new(owner(expected_owner(entry)?), owner(found_owner(node)?)))
            }
            DriftKind::Target => match (entry, node) {
                (FileEntry::Symlink { target, .. }, PathState::Symlink { target: found, .. }) => {
                    Some(Self::new(target, found))
                }
                (FileEntry::HardLink { target }, _) => {
                    Some(Self::new(format!("a hard link to {target}"), "another file"))
                }
                _ => None,
            },
            DriftKind::Type => Some(Self::new(expected_type(entry), node.describe())),
            DriftKind::Unexpected => Some(Self::new("nothing", node.describe())),
            _ => None,
        }
    }

    /// Describe the difference between the recorded SELinux label and the observed `node`.
    #[must_use]
    pub fn of_label(recorded: &str, node: &PathState) -> Self {
        Self::new(recorded, node.label().unwrap_or("no label"))
    }

    /// Describe the difference between link targets; `None` stands for no link.
    #[must_use]
    pub fn of_link(expected: Option<&str>, found: Option<&str>) -> Self {
        let link = |target: Option<&str>| {
            target.map_or_else(|| "no link".to_owned(), |target| format!("a link to {target}"))
        };
        Self::new(link(expected), link(found))
    }
}

fn bytes(count: u64) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

fn expected_type(entry: &FileEntry) -> &'static str {
    match entry {
        FileEntry::File { .. } | FileEntry::HardLink { .. } => "a file",
        FileEntry::Symlink { .. } => "a symbolic link",
        FileEntry::Directory { .. } => "a directory",
        FileEntry::Absent | FileEntry::AbsentOrEmpty { .. } | FileEntry::Unmasked => "nothing",
    }
}

fn expected_attributes(entry: &FileEntry) -> Option<FileAttributes> {
    match entry {
        FileEntry::File { attributes, .. } | FileEntry::Directory { attributes } => Some(*attributes),
        _ => None,
    }
}

fn found_attributes(node: &PathState) -> Option<FileAttributes> {
    match node {
        PathState::File { attributes, .. } | PathState::Directory { attributes, .. } => Some(*attributes),
        _ => None,
    }
}

fn expected_owner(entry: &FileEntry) -> Option<(u32, u32)> {
    match entry {
        FileEntry::Symlink { owner, .. } => Some(*owner),
        entry => expected_attributes(entry).map(|attributes| (attributes.uid, attributes.gid)),
    }
}

fn found_owner(node: &PathState) -> Option<(u32, u32)> {
    match node {
        PathState::Symlink { owner, .. } => Some(*owner),
        node => found_attributes(node).map(|attributes| (attributes.uid, attributes.gid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::values::tree::ContentDigest;
    use crate::core::values::xattrs::XattrSummary;

    const ATTRIBUTES: FileAttributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };

    #[test]
    fn contents_are_described_by_their_sizes() {
        let entry = FileEntry::File { contents: b"password=old".to_vec(), attributes: ATTRIBUTES };
        let node = PathState::File {
            attributes: FileAttributes { mode: 0o4600, uid: 7, gid: 8 },
            digest: ContentDigest::of(b"x"),
            size: 1,
            inode: (1, 1),
            extended: XattrSummary::default(),
        };
        let of = |kind| DriftDifference::of_entry(kind, &entry, &node);
        assert_eq!(of(DriftKind::Content), Some(DriftDifference::new("12 bytes", "1 byte")));
        assert_eq!(of(DriftKind::Mode), Some(DriftDifference::new("0644", "4600")));
        assert_eq!(of(DriftKind::Owner), Some(DriftDifference::new("0:0", "7:8")));
        assert_eq!(of(DriftKind::Password), None);
    }
}
