//! Private mount namespace of this process. Its mounts are visible to this process and its children only, and
//! disappear with them.

use std::path::Path;

use nix::mount::MsFlags;
use nix::sched::CloneFlags;

/// Mount operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}; run it as root, with CAP_SYS_ADMIN")]
pub struct NamespaceError {
    doing: String,
    #[source]
    source: nix::Error,
}

/// Proof that the process is in a mount namespace of its own.
#[derive(Debug)]
pub struct MountNamespace(());

impl MountNamespace {
    /// Enter a new mount namespace. Must be called before the process has other threads: only the calling
    /// thread moves.
    ///
    /// Directories opened before stay in the old namespace. If that ends, as a systemd service's own does when
    /// its only process leaves it, nothing is mounted below them any more: open them again.
    pub fn enter() -> Result<Self, NamespaceError> {
        let failed = |source| NamespaceError { doing: "entering a mount namespace".to_owned(), source };
        nix::sched::unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
        // Mounts propagate from the host to this namespace, but not back.
        change(Path::new("/"), MsFlags::MS_SLAVE | MsFlags::MS_REC).map_err(failed)?;
        Ok(Self(()))
    }

    /// Mount an empty tmpfs.
    pub fn mount_memory(&self, at: &Path) -> Result<(), NamespaceError> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        nix::mount::mount(Some("flameholder"), at, Some("tmpfs"), flags, Some("mode=0700")).map_err(
            |source| NamespaceError { doing: format!("mounting a tmpfs at {}", at.display()), source },
        )
    }

    /// Bind-mount the directory `from` at `at`.
    pub fn bind_mount(&self, from: &Path, at: &Path) -> Result<(), NamespaceError> {
        nix::mount::mount(Some(from), at, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(|source| {
            NamespaceError { doing: format!("mounting {} over {}", from.display(), at.display()), source }
        })
    }

    /// Remount the file system at `at` read-write.
    pub fn make_writable(&self, at: &Path) -> Result<(), NamespaceError> {
        change(at, MsFlags::MS_REMOUNT | MsFlags::MS_BIND)
            .map_err(|source| NamespaceError { doing: format!("making {} writable", at.display()), source })
    }
}

fn change(at: &Path, flags: MsFlags) -> Result<(), nix::Error> {
    nix::mount::mount(None::<&str>, at, None::<&str>, flags, None::<&str>)
}
