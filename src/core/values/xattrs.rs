//! Extended attributes of a file: the SELinux label, and foreign attributes that count as drift.

/// The extended attributes of one path, reduced to the facts that drift detection needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XattrSummary {
    /// The SELinux label, without the NUL that ends it on disk.
    pub label: Option<String>,
    /// True if the path has a foreign attribute; see [`is_foreign`].
    pub foreign: bool,
}

/// Prefixes of attributes that change the meaning of a file or the access to it.
const COUNTED: [&[u8]; 5] =
    [b"user.", b"trusted.", b"security.", b"system.posix_acl_access", b"system.posix_acl_default"];

/// Prefixes of attributes among these that the kernel sets by itself. It updates the integrity attributes of
/// every file, managed ones included, and refuses to open a file whose attributes do not match; overlayfs
/// records the layer of each file.
const UNCOUNTED: [&[u8]; 5] =
    [b"security.selinux", b"security.ima", b"security.evm", b"trusted.overlay.", b"user.overlay."];

/// True if an attribute of this name was set by another program: the agent writes files and directories with
/// an SELinux label only. Attributes of other namespaces (`btrfs.`, `system.nfs4_acl`) are shown by the file
/// system itself, on each of its files, and do not count.
#[must_use]
pub fn is_foreign(name: &[u8]) -> bool {
    COUNTED.iter().any(|prefix| name.starts_with(prefix))
        && !UNCOUNTED.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_set_by_the_kernel_is_not_foreign() {
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
