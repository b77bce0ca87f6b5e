//! The running host, and the locks under which it may be changed. Both are arguments of all that decides or
//! changes something: nothing below fetches them again.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use crate::core::values::identifiers::BootId;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::host::facts::booted::BootedDeployment;
use crate::host::facts::soft_reboots;
use crate::host::facts::soft_reboots::SoftReboots;
use crate::host::facts::{boot, booted};
use crate::host::fs::lock::HostLock;
use crate::host::{HostError, Root};

/// Longest wait of activation for the boot entries, which name the generation after a soft reboot. Their file system was
/// mounted before the soft reboot, so its device is there; without the entries the records name the generation.
const ENTRIES_PATIENCE: Duration = Duration::from_secs(30);

/// Facts about the running system that no root directory contains.
#[derive(Debug, Clone)]
pub struct SystemFacts {
    /// ID of this boot; empty if it cannot be read.
    pub boot_id: BootId,
    /// Soft reboots since the kernel started.
    pub soft_reboots: SoftReboots,
    /// Arguments of the running kernel. A soft reboot keeps them, whatever the boot entry of the booted deployment says.
    pub kernel_arguments: KernelArguments,
    /// True if the kernel is in FIPS mode; `None` if it has no such mode.
    pub fips_mode: Option<bool>,
    /// Directories of programs, separated by colons.
    pub path: OsString,
    /// Time since the kernel started, including suspend.
    pub uptime: fn() -> Duration,
}

impl SystemFacts {
    /// Read the facts of the running system.
    pub fn read() -> Result<Self, HostError> {
        let soft_reboots = SoftReboots::observe(Path::new("/"));
        Ok(Self {
            boot_id: boot::boot_id(soft_reboots.count),
            soft_reboots,
            kernel_arguments: booted::kernel_arguments()?,
            fips_mode: boot::fips_mode(),
            path: std::env::var_os("PATH").unwrap_or_default(),
            uptime: boot::uptime,
        })
    }

    /// Return the time since this boot began: since the kernel started, or since the last soft reboot.
    #[must_use]
    pub fn time_since_boot(&self) -> Duration {
        (self.uptime)().saturating_sub(self.soft_reboots.last)
    }
}

/// The running host, booted through OSTree.
#[derive(Debug)]
pub struct RunningHost {
    /// Its root directory, mounts included.
    pub root: Root,
    pub booted: BootedDeployment,
    pub system: SystemFacts,
}

impl RunningHost {
    /// Open the running host; `None` if it was not booted through OSTree.
    pub fn open() -> Result<Option<Self>, HostError> {
        Self::open_within(Duration::ZERO)
    }

    /// Open the running host early in its boot. After a soft reboot this waits some time for the boot entries.
    pub fn open_early() -> Result<Option<Self>, HostError> {
        Self::open_within(ENTRIES_PATIENCE)
    }

    fn open_within(patience: Duration) -> Result<Option<Self>, HostError> {
        let root = Path::new("/");
        if !boot::is_booted_ostree(root) {
            return Ok(None);
        }
        let system = SystemFacts::read()?;
        let soft_reboots = system.soft_reboots.count;
        if soft_reboots > 0 && !booted::has_entries_within(patience) {
            log::warn!(
                "the boot entries cannot be read: /boot is not mounted; the records alone name the generation"
            );
        }
        let booted = BootedDeployment::observe(&system.kernel_arguments, soft_reboots)?;
        let Some(booted) = booted else { return Ok(None) };
        Ok(Some(Self { root: Root::open(root)?, booted, system }))
    }

    /// Take the host lock. Does not wait: fails with the holder's process ID if it is held.
    pub fn lock(&self) -> Result<LockedHost<'_>, HostError> {
        let lock = HostLock::take(&self.root)?;
        let root = LockedRoot { root: &self.root, boot_id: self.system.boot_id.clone(), _lock: Some(lock) };
        Ok(LockedHost { running: self, root })
    }
}

/// Root directory that no other agent changes while this exists.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct LockedRoot<'a> {
    root: &'a Root,
    boot_id: BootId,
    /// Absent if another lock covers this root.
    _lock: Option<HostLock>,
}

impl<'a> LockedRoot<'a> {
    /// Take the lock of `root`. Does not wait: fails with the holder's process ID if it is held.
    pub fn lock(root: &'a Root) -> Result<Self, HostError> {
        let lock = HostLock::take(root)?;
        // Also on a tree that does not run: the host that will run it may be this one.
        let boot_id = soft_reboots::this_boot();
        Ok(Self { root, boot_id, _lock: Some(lock) })
    }

    /// Extend this lock to another deployment of the same stateroot: they share `/var`, and so the lock file.
    pub fn beside<'b>(&'b self, root: &'b Root) -> LockedRoot<'b> {
        LockedRoot { root, boot_id: self.boot_id.clone(), _lock: None }
    }

    #[must_use]
    pub fn as_root(&self) -> &Root {
        self.root
    }

    /// ID of the boot in which the changes are made; empty if it is unknown.
    #[must_use]
    pub fn boot_id(&self) -> &BootId {
        &self.boot_id
    }
}

impl Deref for LockedRoot<'_> {
    type Target = Root;

    fn deref(&self) -> &Root {
        self.root
    }
}

/// The running host that no other agent changes while this exists. The only way to change it.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct LockedHost<'a> {
    pub running: &'a RunningHost,
    root: LockedRoot<'a>,
}

impl<'a> Deref for LockedHost<'a> {
    type Target = LockedRoot<'a>;

    fn deref(&self) -> &LockedRoot<'a> {
        &self.root
    }
}
