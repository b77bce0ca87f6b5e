//! Where the daemon stands, where `status` finds it: also when the daemon is gone.

use crate::core::daemon_report::DaemonReport;
use crate::core::limits;
use crate::core::names::ManagedPath;
use crate::host::Root;

use super::whole_file;

const REPORT: &str = "/run/hostwright/daemon.json";
const NEW_REPORT: &str = "/run/hostwright/daemon.json.new";

/// Publishes it. Nothing depends on it but what people are told.
pub fn publish(root: &Root, report: &DaemonReport) {
    let (path, new) = (ManagedPath::constant(REPORT), ManagedPath::constant(NEW_REPORT));
    let text = serde_json::to_vec(report).expect("a report of ours has only string keys");
    if let Err(error) = whole_file::write_for_this_boot(root, &path, &new, &text) {
        log::warn!("where the daemon stands cannot be published: {error}");
    }
}

/// What was published in this boot; nothing where nobody did, or it cannot be read.
#[must_use]
pub fn load(root: &Root) -> Option<DaemonReport> {
    let bytes = root.read(&ManagedPath::constant(REPORT), limits::DOCUMENT_BYTES).ok()??;
    serde_json::from_slice(&bytes).ok()
}
