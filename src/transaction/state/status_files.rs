//! What is said about the host, where `status` finds it until the next boot: also when whoever said it is gone.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::boot_check::HealthReport;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::Root;

use crate::transaction::engine::atomic_file;

/// How healthy the host is.
pub const HEALTH: StatusFile<HealthReport> =
    StatusFile::at("/run/flameholder/boot-check.json", "how healthy the host is");
/// Where the daemon stands.
pub const DAEMON: StatusFile<DaemonReport> =
    StatusFile::at("/run/flameholder/daemon.json", "where the daemon stands");

/// A report. What programs say in it is not for everybody: the file is root's.
#[derive(Debug)]
pub struct StatusFile<T> {
    /// Where it lies.
    pub path: &'static str,
    what: &'static str,
    content: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> StatusFile<T> {
    const fn at(path: &'static str, what: &'static str) -> Self {
        Self { path, what, content: PhantomData }
    }

    /// Publishes it. Nothing depends on it but what people are told.
    pub fn publish(&self, root: &Root, content: &T) {
        let (path, new) = (self.place(""), self.place(".new"));
        let text = serde_json::to_vec(content).expect("a report of ours has only string keys");
        if let Err(error) = atomic_file::write_to_run(root, &path, &new, &text) {
            log::warn!("{} cannot be published: {error}", self.what);
        }
    }

    /// What was published in this boot; nothing where nobody did, or it cannot be read.
    #[must_use]
    pub fn load(&self, root: &Root) -> Option<T> {
        let bytes = root.read(&self.place(""), limits::DOCUMENT_BYTES).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    fn place(&self, suffix: &str) -> ManagedPath {
        ManagedPath::constant(&format!("{}{suffix}", self.path))
    }
}
