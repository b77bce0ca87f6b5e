//! The host itself: its file system, behind one handle that nothing below here leaves, and its services.

pub mod accounts;
pub mod boot;
pub mod booted;
pub mod disk;
mod effects;
pub mod error;
pub mod etc_copy;
pub mod etc_tree;
mod extended;
pub mod facts;
pub mod fragments;
pub mod lock;
mod login_bus;
pub mod logind;
mod lookup;
pub mod mount_namespace;
mod mounts;
pub mod observe;
pub mod pid1;
mod private_socket;
mod reboot_error;
pub mod reboot_port;
pub mod root;
pub mod service_port;
pub mod sight;
pub mod staging;
mod sync;
mod system_bus;
pub mod systemd;
pub mod unit_texts;

pub use disk::{Disk, Status};
pub use error::{HostError, Op};
pub use root::Root;
pub use service_port::{ServiceError, Services};
pub use systemd::Systemd;
