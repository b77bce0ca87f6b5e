//! Request to rpm-ostreed whose result this agent has not seen, or has not staged as its own yet.
//!
//! A transaction of rpm-ostreed continues after its client was killed. With the document, the next command recognizes the
//! staged deployment as its own and not as foreign, and does not take the image in the repository for a checked one:
//! rpm-ostreed checks an image only after it has staged it.

use serde::{Deserialize, Serialize};

use crate::core::state::own_document;
use crate::core::state::own_document::{UpgradeStep, next_schema};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk as _, HostError, Root};
use crate::os::{Deployment, ImportRequest};
use crate::transaction::engine::atomic_file;

/// Path of the document. It outlives a power cut, as the image in the repository does.
const REQUEST: &str = "/var/lib/flameholder/rpm-ostree-request";
const NEW_REQUEST: &str = "/var/lib/flameholder/rpm-ostree-request.new";
/// Document schema that this release writes. It also reads older ones.
const SCHEMA: u32 = 1 + next_schema::OFFSET;
/// Steps that upgrade the document, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

#[derive(Debug, Serialize, Deserialize)]
struct RpmOstreeRequest {
    schema: u32,
    wanted: ImportRequest,
}

/// Save the request, durably. Called before the request is sent, so that no staged deployment lacks it.
pub(crate) fn write_request(root: &Root, wanted: &ImportRequest) -> Result<(), HostError> {
    let text = own_document::render(&RpmOstreeRequest { schema: SCHEMA, wanted: wanted.clone() });
    let (path, new) = (ManagedPath::constant(REQUEST), ManagedPath::constant(NEW_REQUEST));
    atomic_file::write(root, &path, &new, &text)
}

/// Return true if there is a request without a known result. One that cannot be read counts.
pub(crate) fn is_open(root: &Root) -> Result<bool, HostError> {
    root.exists(&ManagedPath::constant(REQUEST))
}

/// Remove the request, durably.
pub(crate) fn remove_request(root: &Root) -> Result<(), HostError> {
    // Most updates make no request: they need no flush either.
    if !is_open(root)? {
        return Ok(());
    }
    let path = ManagedPath::constant(REQUEST);
    root.remove_file(&path)?;
    root.sync(&[path.parent()])
}

/// Return true if the staged deployment results from the saved request: it has the requested image and
/// packages, and is locked, unlike deployments of other clients, and this agent has not staged it as its own yet. The
/// request stays, because the transaction may still be running.
pub(crate) fn is_staged_by_request(root: &Root, staged: &Deployment) -> bool {
    let bytes = root.read(&ManagedPath::constant(REQUEST), limits::DOCUMENT_BYTES).ok().flatten();
    let request = bytes.and_then(|bytes| own_document::parse(&bytes, SCHEMA, UPGRADES).ok());
    let is_rpm_ostreeds = staged.locked && staged.staged_in.is_none();
    is_rpm_ostreeds && request.is_some_and(|request: RpmOstreeRequest| request.wanted.is_in(staged))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Document as this release writes it.
    const FORMAT_1: &str = r#"{"schema":1,"wanted":{"image":"ostree-unverified-registry:h/os:1","packages":{"install":["usbguard"],"uninstall":[],"remove":["kernel"],"reset":[]}}}
"#;

    #[test]
    fn first_format_is_read_by_each_release() {
        let read: RpmOstreeRequest = own_document::parse(FORMAT_1.as_bytes(), SCHEMA, UPGRADES).unwrap();
        assert_eq!(read.wanted.image.unwrap().to_string(), "ostree-unverified-registry:h/os:1");
        assert_eq!(
            (read.wanted.packages.install, read.wanted.packages.remove),
            (vec!["usbguard".to_owned()], vec!["kernel".to_owned()])
        );
    }
}
