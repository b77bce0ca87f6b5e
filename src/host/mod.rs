//! The host: its file system behind one handle, its systemd services, and facts about it.

pub mod facts;
pub mod file_locks;
pub mod file_watch;
pub mod fs;
pub mod interrupt_signals;
pub mod local_directory;
pub mod locked_host;
pub mod memory_file;
pub mod mount_namespace;
pub mod own_process;
pub mod programs;
pub mod requester;
pub mod systemd;
pub mod trusted_path;

pub use fs::disk::{FileStatus, HostDisk, SyncQueue};
pub use fs::error::{FileOperation, HostError};
pub use fs::root::Root;
pub use locked_host::{LockedHost, LockedRoot, RunningHost};
pub use systemd::service_port::{ServiceControl, ServiceError};
pub use systemd::unit_jobs::SystemdServices;
