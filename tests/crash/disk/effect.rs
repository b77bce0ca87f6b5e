//! Acts of the port as values, and a disk that consults a screen before each.

use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::tree::FileAttributes;
use flameholder::host::fs::account_lock::AccountLock;
use flameholder::host::{FileStatus, HostDisk, HostError};

/// Act of the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    MakeDirectory {
        path: ManagedPath,
        attributes: FileAttributes,
        label: Option<Vec<u8>>,
    },
    SetAttributes {
        path: ManagedPath,
        attributes: FileAttributes,
    },
    CreateFile {
        path: ManagedPath,
        contents: Vec<u8>,
        attributes: FileAttributes,
        label: Option<Vec<u8>>,
    },
    CreateSymlink {
        path: ManagedPath,
        target: String,
        owner: (u32, u32),
        label: Option<Vec<u8>>,
    },
    HardLink {
        from: ManagedPath,
        to: ManagedPath,
    },
    Append {
        path: ManagedPath,
        bytes: Vec<u8>,
    },
    Rename {
        from: ManagedPath,
        to: ManagedPath,
    },
    Exchange {
        a: ManagedPath,
        b: ManagedPath,
    },
    RemoveFile {
        path: ManagedPath,
    },
    RemoveDirectory {
        path: ManagedPath,
    },
    /// One of the paths of a sync; a sync of several paths is several effects.
    Sync {
        path: Option<ManagedPath>,
    },
}

impl Effect {
    pub(crate) fn perform(&self, disk: &dyn HostDisk) -> Result<(), HostError> {
        match self {
            Self::MakeDirectory { path, attributes, label } => {
                disk.make_directory(path, *attributes, label.as_deref())
            }
            Self::SetAttributes { path, attributes } => disk.set_attributes(path, *attributes),
            Self::CreateFile { path, contents, attributes, label } => {
                disk.create_file(path, contents, *attributes, label.as_deref())
            }
            Self::CreateSymlink { path, target, owner, label } => {
                disk.create_symlink(path, target, *owner, label.as_deref())
            }
            Self::HardLink { from, to } => disk.hard_link(from, to),
            Self::Append { path, bytes } => disk.append(path, bytes),
            Self::Rename { from, to } => disk.rename(from, to),
            Self::Exchange { a, b } => disk.exchange(a, b),
            Self::RemoveFile { path } => disk.remove_file(path),
            Self::RemoveDirectory { path } => disk.remove_directory(path),
            Self::Sync { path } => disk.sync(std::slice::from_ref(path)),
        }
    }

    /// Path that the act changes or flushes.
    pub(crate) fn path(&self) -> Option<&ManagedPath> {
        match self {
            Self::MakeDirectory { path, .. }
            | Self::SetAttributes { path, .. }
            | Self::CreateFile { path, .. }
            | Self::CreateSymlink { path, .. }
            | Self::HardLink { to: path, .. }
            | Self::Append { path, .. }
            | Self::Rename { to: path, .. }
            | Self::Exchange { b: path, .. }
            | Self::RemoveFile { path }
            | Self::RemoveDirectory { path } => Some(path),
            Self::Sync { path } => path.as_ref(),
        }
    }

    /// Act cut short after half of its bytes; `None` if it writes none.
    pub(crate) fn half(&self) -> Option<Self> {
        let mut half = self.clone();
        match &mut half {
            Self::CreateFile { contents: bytes, .. } | Self::Append { bytes, .. } if bytes.len() > 1 => {
                bytes.truncate(bytes.len() / 2);
                Some(half)
            }
            _ => None,
        }
    }
}

/// Decision about each act and read.
pub(crate) trait Screen {
    /// Perform an act on `disk`, or something else in its place.
    fn act(&self, disk: &dyn HostDisk, effect: Effect) -> Result<(), HostError>;
    /// Fail if the disk cannot be read.
    fn look(&self, _: &str) -> Result<(), HostError> {
        Ok(())
    }
}

/// Disk behind a screen.
pub(crate) struct Screened<'a> {
    pub disk: &'a dyn HostDisk,
    pub screen: &'a dyn Screen,
}

impl Screened<'_> {
    fn act(&self, effect: Effect) -> Result<(), HostError> {
        self.screen.act(self.disk, effect)
    }

    fn look<T>(
        &self,
        path: &ManagedPath,
        look: impl FnOnce(&dyn HostDisk) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        self.screen.look(path.as_str())?;
        look(self.disk)
    }
}

impl HostDisk for Screened<'_> {
    fn status(&self, path: &ManagedPath) -> Result<Option<FileStatus>, HostError> {
        self.look(path, |disk| disk.status(path))
    }

    fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError> {
        self.look(path, |disk| disk.read(path, limit))
    }

    fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError> {
        self.look(path, |disk| disk.link_target(path))
    }

    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        self.look(path, |disk| disk.label(path))
    }

    fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        self.look(path, |disk| disk.directory_label(path))
    }

    fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError> {
        self.look(path, |disk| disk.below(path))
    }

    fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError> {
        self.screen.look("/")?;
        self.disk.mount(directory)
    }

    fn is_volatile(&self, directory: &ManagedPath) -> Result<bool, HostError> {
        self.look(directory, |disk| disk.is_volatile(directory))
    }

    fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError> {
        self.screen.look("/")?;
        self.disk.mount_points()
    }

    fn lock_accounts(&self) -> Result<AccountLock, HostError> {
        self.screen.look("/etc")?;
        self.disk.lock_accounts()
    }

    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let label = label.map(<[u8]>::to_vec);
        self.act(Effect::MakeDirectory { path: path.clone(), attributes, label })
    }

    fn set_attributes(&self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError> {
        self.act(Effect::SetAttributes { path: path.clone(), attributes })
    }

    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let (path, contents, label) = (path.clone(), contents.to_vec(), label.map(<[u8]>::to_vec));
        self.act(Effect::CreateFile { path, contents, attributes, label })
    }

    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        owner: (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let (path, target, label) = (path.clone(), target.to_owned(), label.map(<[u8]>::to_vec));
        self.act(Effect::CreateSymlink { path, target, owner, label })
    }

    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.act(Effect::HardLink { from: from.clone(), to: to.clone() })
    }

    fn append(&self, path: &ManagedPath, bytes: &[u8]) -> Result<(), HostError> {
        self.act(Effect::Append { path: path.clone(), bytes: bytes.to_vec() })
    }

    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.act(Effect::Rename { from: from.clone(), to: to.clone() })
    }

    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError> {
        self.act(Effect::Exchange { a: a.clone(), b: b.clone() })
    }

    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.act(Effect::RemoveFile { path: path.clone() })
    }

    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.act(Effect::RemoveDirectory { path: path.clone() })
    }

    fn sync(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError> {
        paths.iter().try_for_each(|path| self.act(Effect::Sync { path: path.clone() }))
    }
}
