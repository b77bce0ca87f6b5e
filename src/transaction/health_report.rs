//! What is said about the health of what runs, where `status` finds it until the next boot.

use crate::core::health::HealthReport;
use crate::core::limits;
use crate::core::names::ManagedPath;
use crate::host::{HostError, Root};

use super::whole_file;

/// What programs that check say is not for everybody: the file is root's.
const REPORT: &str = "/run/hostwright/health.json";
const NEW_REPORT: &str = "/run/hostwright/health.json.new";

/// Publishes it. Nothing depends on it but what people are told.
pub(super) fn publish(root: &Root, report: &HealthReport) {
    if let Err(error) = write(root, report) {
        log::warn!("how healthy the host is cannot be published: {error}");
    }
}

fn write(root: &Root, report: &HealthReport) -> Result<(), HostError> {
    let (path, new) = (ManagedPath::constant(REPORT), ManagedPath::constant(NEW_REPORT));
    let text = serde_json::to_vec(report).expect("a report of ours has only string keys");
    whole_file::write_for_this_boot(root, &path, &new, &text)
}

/// What was published in this boot; nothing where nobody did, or it cannot be read.
#[must_use]
pub fn load(root: &Root) -> Option<HealthReport> {
    let bytes = root.read(&ManagedPath::constant(REPORT), limits::DOCUMENT_BYTES).ok()??;
    serde_json::from_slice(&bytes).ok()
}
