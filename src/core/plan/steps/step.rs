//! One act on a path, carrying all that carrying it out needs.

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileAttributes;

/// One reversible act on a path.
#[derive(Clone, PartialEq, Eq)]
pub enum PlanStep {
    /// Make a directory.
    MakeDirectory {
        /// Where; its parent exists by then.
        path: ManagedPath,
        /// Mode and owner.
        attributes: FileAttributes,
    },
    /// Give a directory its mode and owner.
    SetAttributes {
        /// The directory.
        path: ManagedPath,
        /// Mode and owner.
        attributes: FileAttributes,
    },
    /// Keep what others wrote at `path` under a second name.
    Preserve {
        /// The path that is about to be managed.
        path: ManagedPath,
        /// Where its pre-image is kept.
        original: ManagedPath,
    },
    /// Put a file in place, whatever leaf stood there.
    Write {
        /// The path.
        path: ManagedPath,
        /// Its bytes.
        contents: Vec<u8>,
        /// Mode and owner.
        attributes: FileAttributes,
    },
    /// Put a symbolic link in place, whatever leaf stood there.
    Symlink {
        /// The path.
        path: ManagedPath,
        /// What it points to.
        target: String,
        /// Owner of the link.
        owner: (u32, u32),
    },
    /// Give the file at `target` the name `path` too.
    HardLink {
        /// The path.
        path: ManagedPath,
        /// The file.
        target: ManagedPath,
    },
    /// Put a kept pre-image back in place.
    Restore {
        /// The path.
        path: ManagedPath,
        /// Where its pre-image is kept.
        original: ManagedPath,
    },
    /// Remove a file or link.
    Remove {
        /// The path.
        path: ManagedPath,
    },
    /// Remove a directory, if it is empty by then.
    RemoveDirectory {
        /// The path.
        path: ManagedPath,
    },
}

impl PlanStep {
    /// The path that changes.
    #[must_use]
    pub fn path(&self) -> &ManagedPath {
        match self {
            Self::MakeDirectory { path, .. }
            | Self::SetAttributes { path, .. }
            | Self::Write { path, .. }
            | Self::Symlink { path, .. }
            | Self::HardLink { path, .. }
            | Self::Restore { path, .. }
            | Self::Remove { path }
            | Self::RemoveDirectory { path } => path,
            Self::Preserve { original, .. } => original,
        }
    }
}

impl std::fmt::Debug for PlanStep {
    // Contents may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match self {
            Self::MakeDirectory { .. } => "make directory",
            Self::SetAttributes { .. } => "set attributes of",
            Self::Preserve { .. } => "preserve as",
            Self::Write { .. } => "write",
            Self::Symlink { .. } | Self::HardLink { .. } => "link",
            Self::Restore { .. } => "restore",
            Self::Remove { .. } => "remove",
            Self::RemoveDirectory { .. } => "remove directory",
        };
        write!(f, "{verb} {}", self.path())
    }
}
