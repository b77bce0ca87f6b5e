//! What went wrong on the host, with the act and the path that it went wrong on.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;

use crate::host::fs::path_state::errno_of;

/// The act that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperation {
    /// Opening the root directory.
    OpenRoot,
    /// Reading metadata or content.
    Read,
    /// Listing a directory.
    List,
    /// Making a directory.
    MakeDirectory,
    /// Writing a file beside its place.
    Stage,
    /// Giving mode or owner.
    SetAttributes,
    /// Giving a SELinux label.
    Label,
    /// Making a link.
    Link,
    /// Adding to a file's end.
    Append,
    /// Moving something into or out of its place.
    Rename,
    /// Removing something.
    Remove,
    /// Making a change durable.
    Sync,
    /// Taking the lock.
    Lock,
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenRoot => "opening the root",
            Self::Read => "reading",
            Self::List => "listing",
            Self::MakeDirectory => "making the directory",
            Self::Stage => "writing",
            Self::SetAttributes => "setting mode and owner of",
            Self::Label => "labelling",
            Self::Link => "linking",
            Self::Append => "adding to",
            Self::Rename => "putting in place",
            Self::Remove => "removing",
            Self::Sync => "making durable",
            Self::Lock => "locking",
        })
    }
}

/// A failed act.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A system call failed.
    #[error("{op} {path}{}", hint(*.source))]
    Failed {
        /// The act.
        op: FileOperation,
        /// The path, as seen from the root.
        path: String,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A symbolic link above the path leads out of the root.
    #[error(
        "{path}: a directory above it is a symbolic link that leaves the root; replace the link by a directory, or by a relative link that stays inside"
    )]
    Escape {
        /// The path.
        path: String,
    },
    /// A symbolic link above the path may have been put there by others than the tree's owner.
    #[error(
        "{path}: a directory above it is a symbolic link that others than root may change; make it a directory"
    )]
    UntrustedLink {
        /// The path.
        path: String,
    },
    /// A name that no configuration can spell.
    #[error("{directory} is in the way and holds a file whose name is not plain text; move it away")]
    InvalidName {
        /// The directory.
        directory: String,
    },
    /// What should be a file is something else, or a link that leads to none.
    #[error("{path} is no file, and no link to one beneath the root; make it a file or remove it")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// A file is too large to be what it should be.
    #[error("{path} is larger than {limit} bytes")]
    TooLarge {
        /// The path.
        path: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Somebody else is at work on this root.
    #[error("another flameholder{} works on this root (lock {path}); wait for it, or see what it does with `flameholder status`", process(holder.as_deref()))]
    Locked {
        /// The lock file.
        path: String,
        /// Process number that the holder wrote into it.
        holder: Option<String>,
    },
}

impl HostError {
    /// Wraps an error number; the kernel's "not beneath" becomes [`HostError::Escape`], and a lookup's
    /// "not to be trusted" [`HostError::UntrustedLink`].
    #[must_use]
    pub fn new(op: FileOperation, path: &str, source: Errno) -> Self {
        let path = path.to_owned();
        match source {
            Errno::XDEV if op != FileOperation::Rename && op != FileOperation::Link => Self::Escape { path },
            Errno::NOLINK => Self::UntrustedLink { path },
            source => Self::Failed { op, path, source },
        }
    }

    /// The same for what the standard library says, of a path that may be anything.
    #[must_use]
    pub fn io(op: FileOperation, path: &Path, error: &std::io::Error) -> Self {
        Self::new(op, &path.display().to_string(), errno_of(error))
    }

    /// The error number, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Failed { source, .. } => Some(*source),
            _ => None,
        }
    }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC | Errno::DQUOT => " (free some space and run it again)",
        Errno::ROFS => " (the file system is mounted read-only)",
        Errno::ACCESS | Errno::PERM => " (run it as root)",
        Errno::NOSYS => " (the kernel lacks openat2; Linux 5.6 or newer is needed)",
        _ => "",
    }
}

fn process(pid: Option<&str>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}
