//! The host itself: its file system, behind one handle that nothing below here leaves, and its services.

pub mod accounts;
pub mod boot;
pub mod effects;
pub mod error;
pub mod facts;
pub mod lock;
pub mod observe;
pub mod root;
pub mod service_port;
pub mod staging;
mod system_bus;
pub mod systemd;
pub mod unit_texts;

pub use effects::Effects;
pub use error::{HostError, Op};
pub use root::Root;
pub use service_port::{ServiceError, Services};
pub use systemd::Systemd;
