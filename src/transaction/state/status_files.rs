//! Status reports below `/run`, which `flameholder status` reads after the process that wrote them has
//! ended.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::grant::leases::LeaseSightings;
use crate::core::daemon::hook_verdicts::HookVerdicts;
use crate::core::state::boot_check::HealthReport;
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileAttributes;
use crate::host::Root;
use crate::report::status::StatusDocument;
use crate::transaction::engine::atomic_file;

/// Report of the boot check. Readable by root only, because output of check programs can contain secrets.
pub const BOOT_CHECK: StatusFile<HealthReport> =
    StatusFile::at("/run/flameholder/boot-check.json", "boot check report", atomic_file::ATTRIBUTES);
/// Status of the host after the last change, for users who may not read the host.
pub const STATUS: StatusFile<StatusDocument> =
    StatusFile::at("/run/flameholder/status.json", "status", atomic_file::READABLE);
/// Verdicts of the hooks.
pub const HOOKS: StatusFile<HookVerdicts> =
    StatusFile::at("/run/flameholder/hooks.json", "verdicts of hooks", atomic_file::ATTRIBUTES);
/// Leases of a lock as this host saw them, for the time until it starts again.
pub const LEASE_SIGHTINGS: StatusFile<LeaseSightings> =
    StatusFile::at("/run/flameholder/lease-sightings.json", "sightings of leases", atomic_file::ATTRIBUTES);
/// Report of the daemon, in the one directory that the daemon itself writes to: all else is done by its work processes.
pub const DAEMON: StatusFile<DaemonReport> =
    StatusFile::at("/run/flameholder/daemon/report.json", "daemon report", atomic_file::READABLE);

/// File with a report of type `T`.
#[derive(Debug)]
pub struct StatusFile<T> {
    pub path: &'static str,
    what: &'static str,
    attributes: FileAttributes,
    content: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> StatusFile<T> {
    const fn at(path: &'static str, what: &'static str, attributes: FileAttributes) -> Self {
        Self { path, what, attributes, content: PhantomData }
    }

    /// Write the report. Failure is only logged: reports are informative.
    pub fn publish(&self, root: &Root, content: &T) {
        // A name per process: the daemon and a unit of the boot can write at the same time.
        let (path, new) = (self.place(""), self.place(&format!(".{}.new", std::process::id())));
        let text = serde_json::to_vec(content).expect("a report has only string keys");
        if let Err(error) = atomic_file::write_to_run(root, &path, &new, &text, self.attributes) {
            log::warn!("cannot write the {}: {error}", self.what, error = chain(&error));
        }
    }

    /// Load the report of this boot; `None` if it does not exist or cannot be read.
    #[must_use]
    pub fn load(&self, root: &Root) -> Option<T> {
        let bytes = root.read(&self.place(""), limits::DOCUMENT_BYTES).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    fn place(&self, suffix: &str) -> ManagedPath {
        ManagedPath::constant(&format!("{}{suffix}", self.path))
    }
}
