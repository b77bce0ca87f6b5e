//! Steps of a plan: reversible changes of single paths, with all data needed to carry them out.

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileAttributes;

/// Reversible change of one path.
#[derive(Clone, PartialEq, Eq)]
pub enum PlanStep {
    /// Create a directory.
    MakeDirectory {
        /// Path, whose parent exists at this step.
        path: ManagedPath,
        attributes: FileAttributes,
    },
    /// Set mode and owner of a directory or file.
    SetAttributes { path: ManagedPath, attributes: FileAttributes },
    /// Store the pre-image of a path that is not managed yet.
    Preserve {
        /// Path that becomes managed.
        path: ManagedPath,
        /// Path of the stored pre-image.
        original: ManagedPath,
    },
    /// Write a file, in place of any file or link at the path.
    Write { path: ManagedPath, contents: Vec<u8>, attributes: FileAttributes },
    /// Set the password field of the user `core` in a shadow file. The other lines are read when the step is
    /// carried out: other programs may change them until then.
    SetPassword {
        path: ManagedPath,
        hash: String,
        /// Day of the change, in days since 1970.
        today: u64,
    },
    /// Create a symbolic link, in place of any file or link at the path.
    Symlink {
        path: ManagedPath,
        target: String,
        /// User and group of the link itself.
        owner: (u32, u32),
    },
    /// Create a hard link at `path` to the file `target`.
    HardLink { path: ManagedPath, target: ManagedPath },
    /// Put a stored pre-image back in place.
    Restore {
        path: ManagedPath,
        /// Path of the stored pre-image.
        original: ManagedPath,
    },
    /// Remove a file or link.
    Remove { path: ManagedPath },
    /// Remove a directory if it is empty by then.
    RemoveDirectory { path: ManagedPath },
}

impl PlanStep {
    /// Return true if the step makes or removes a directory.
    #[must_use]
    pub fn is_of_directory(&self) -> bool {
        matches!(self, Self::MakeDirectory { .. } | Self::RemoveDirectory { .. })
    }

    /// Return the path that changes.
    #[must_use]
    pub fn path(&self) -> &ManagedPath {
        match self {
            Self::MakeDirectory { path, .. }
            | Self::SetAttributes { path, .. }
            | Self::Write { path, .. }
            | Self::SetPassword { path, .. }
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
    // Contents may be secret, so only the path is printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match self {
            Self::MakeDirectory { .. } => "make directory",
            Self::SetAttributes { .. } => "set attributes of",
            Self::Preserve { .. } => "preserve as",
            Self::Write { .. } => "write",
            Self::SetPassword { .. } => "set password in",
            Self::Symlink { .. } | Self::HardLink { .. } => "link",
            Self::Restore { .. } => "restore",
            Self::Remove { .. } => "remove",
            Self::RemoveDirectory { .. } => "remove directory",
        };
        write!(f, "{verb} {}", self.path())
    }
}
