//! Extended attributes of a node: its SELinux label, and whether it has any that no apply gives.

/// What a node's extended attributes come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XattrSummary {
    /// The SELinux label, without the NUL that ends it on disk.
    pub label: Option<String>,
    /// Whether there is one that somebody else gave: see [`is_foreign`].
    pub foreign: bool,
}

/// Prefixes of the attributes that change what a file is or who may use it.
const COUNTED: [&[u8]; 5] =
    [b"user.", b"trusted.", b"security.", b"system.posix_acl_access", b"system.posix_acl_default"];

/// Those of them that come without anybody's doing. The kernel keeps the integrity attributes in step
/// with each file, ours too, and refuses the file where they do not fit; an overlay's bookkeeping
/// says on which layer a file lies.
const UNCOUNTED: [&[u8]; 5] =
    [b"security.selinux", b"security.ima", b"security.evm", b"trusted.overlay.", b"user.overlay."];

/// Whether an attribute of this name is somebody's own. Files and directories are made with a label
/// and nothing else. What a file system shows of itself in other namespaces (`btrfs.`,
/// `system.nfs4_acl`) is on every file of it.
#[must_use]
pub fn is_foreign(name: &[u8]) -> bool {
    COUNTED.iter().any(|prefix| name.starts_with(prefix))
        && !UNCOUNTED.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_gave_is_told_from_what_comes_by_itself() {
        for name in [
            "user.note",
            "trusted.note",
            "security.capability",
            "system.posix_acl_access",
            "system.posix_acl_default",
            "trusted.overlayfs",
        ] {
            assert!(is_foreign(name.as_bytes()), "{name}");
        }
        for name in [
            "security.selinux",
            "security.ima",
            "security.evm",
            "trusted.overlay.opaque",
            "trusted.overlay.overlay.opaque",
            "user.overlay.origin",
            "system.nfs4_acl",
            "btrfs.compression",
            "",
        ] {
            assert!(!is_foreign(name.as_bytes()), "{name}");
        }
    }
}
