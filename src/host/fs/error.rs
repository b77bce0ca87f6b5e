//! Errors of file system operations, with operation and path.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;

use crate::host::fs::path_state::errno_of;

/// Operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperation {
    OpenRoot,
    /// Reading metadata or content.
    Read,
    List,
    MakeDirectory,
    /// Writing a file under a temporary name.
    Stage,
    /// Setting mode and owner.
    SetAttributes,
    /// Setting the SELinux label.
    Label,
    /// Creating a symbolic or hard link.
    Link,
    Append,
    /// Renaming to the final path, or away from it.
    Rename,
    Remove,
    /// Calling fsync(2).
    Sync,
    /// Taking the lock of the root.
    Lock,
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenRoot => "opening the root directory",
            Self::Read => "reading",
            Self::List => "listing",
            Self::MakeDirectory => "creating the directory",
            Self::Stage => "writing",
            Self::SetAttributes => "setting mode and owner of",
            Self::Label => "labelling",
            Self::Link => "linking",
            Self::Append => "appending to",
            Self::Rename => "renaming to",
            Self::Remove => "removing",
            Self::Sync => "syncing",
            Self::Lock => "locking",
        })
    }
}

/// Failed file system operation.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("{op} {path}{}", hint(*.source))]
    Failed {
        op: FileOperation,
        /// Path below the root.
        path: String,
        #[source]
        source: Errno,
    },
    /// A symbolic link above the path points outside the root, or is absolute and dangles.
    #[error(
        "{path}: a directory above it is a symbolic link that leaves the root or leads nowhere; replace it with a directory, or with a link that stays inside the root"
    )]
    Escape { path: String },
    /// A symbolic link above the path may have been created by users other than the tree's owner.
    #[error(
        "{path}: a directory above it is a symbolic link that users other than root may change; replace it with a directory"
    )]
    UntrustedLink { path: String },
    /// A directory to be removed holds a file name that no config can contain.
    #[error(
        "{directory} is in the way and holds a file whose name has invalid UTF-8 or control characters; move the directory away"
    )]
    InvalidName { directory: String },
    /// Expected a file, or a link to one beneath the root.
    #[error("{path} is not a file, nor a link to one beneath the root; replace it with a file or remove it")]
    NotAFile { path: String },
    /// The file exceeds the size limit for its kind.
    #[error("{path} is larger than {limit} bytes")]
    TooLarge {
        path: String,
        /// In bytes.
        limit: usize,
    },
    /// No deployment is the one that a soft reboot booted.
    #[error(
        "cannot tell which deployment booted: after a soft reboot neither / nor /etc is that of a deployment in /sysroot, and /run/ostree-booted names none; reboot the host: systemctl reboot"
    )]
    UnknownDeployment,
    /// Another process holds the lock of this root.
    #[error("another flameholder{} works on this root (lock {path}); wait until it has finished; `flameholder status` shows its progress", process(holder.as_deref()))]
    Locked {
        /// Path of the lock file.
        path: String,
        /// Process ID that the holder wrote into the lock file.
        holder: Option<String>,
    },
    /// The shadow file lost the user's line after the change was planned.
    #[error("{path} has no entry for the user {user} any more; add one, or run the command again")]
    NoShadowEntry { path: String, user: &'static str },
    /// Another program holds the lock of the account files.
    #[error(
        "another program holds {path}, the lock of users and passwords; wait until it has finished, then try again"
    )]
    AccountsLocked {
        /// Path of the lock file.
        path: String,
    },
}

impl HostError {
    /// Convert an error number. `EXDEV` of a lookup becomes [`HostError::Escape`], and its `ENOLINK`
    /// [`HostError::UntrustedLink`].
    #[must_use]
    pub fn new(op: FileOperation, path: &str, source: Errno) -> Self {
        let path = path.to_owned();
        match source {
            Errno::XDEV if op != FileOperation::Rename && op != FileOperation::Link => Self::Escape { path },
            Errno::NOLINK => Self::UntrustedLink { path },
            source => Self::Failed { op, path, source },
        }
    }

    /// Convert an error of the standard library.
    #[must_use]
    pub fn io(op: FileOperation, path: &Path, error: &std::io::Error) -> Self {
        Self::new(op, &path.display().to_string(), errno_of(error))
    }

    /// Path that the error is about.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Failed { path, .. }
            | Self::Escape { path }
            | Self::UntrustedLink { path }
            | Self::NotAFile { path }
            | Self::TooLarge { path, .. }
            | Self::Locked { path, .. }
            | Self::AccountsLocked { path }
            | Self::NoShadowEntry { path, .. }
            | Self::InvalidName { directory: path } => path,
            Self::UnknownDeployment => "/",
        }
    }

    /// Return true if another process holds a lock, so that a later retry may succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::AccountsLocked { .. })
    }

    /// Error number; `None` for errors that were detected without a failed system call.
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
        Errno::NOSPC | Errno::DQUOT => " (free some space and run the command again)",
        Errno::ROFS => " (the file system is mounted read-only)",
        Errno::ACCESS | Errno::PERM => " (run the command as root)",
        Errno::NOSYS => " (the kernel lacks openat2; Linux 5.6 or newer is needed)",
        _ => "",
    }
}

fn process(pid: Option<&str>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}
