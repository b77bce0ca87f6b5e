//! Note of the last request to rpm-ostreed in this boot. A transaction of rpm-ostreed continues after its
//! client was killed; with the note, the next command recognizes the staged deployment as its own and not
//! as foreign.

use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostError, Root};
use crate::os::{Deployment, ImportRequest};
use crate::transaction::engine::atomic_file;

/// In `/run`: a staged deployment that was not finalized is lost with the boot as well.
const REQUEST: &str = "/run/flameholder/rpm-ostree-request.json";
const NEW_REQUEST: &str = "/run/flameholder/rpm-ostree-request.json.new";

/// Save the request. Called before the request is sent, so that no staged deployment lacks a note.
pub(crate) fn write_request(root: &Root, wanted: &ImportRequest) -> Result<(), HostError> {
    let (path, new) = (ManagedPath::constant(REQUEST), ManagedPath::constant(NEW_REQUEST));
    let text = serde_json::to_vec(wanted).expect("a request has only string keys");
    atomic_file::write_to_run(root, &path, &new, &text)
}

/// Return true if the staged deployment results from the saved request: it has the requested image and
/// packages, and is locked, unlike deployments of other clients. The note stays, because the transaction
/// may still be running.
pub(crate) fn is_staged_by_request(root: &Root, staged: &Deployment) -> bool {
    let bytes = root.read(&ManagedPath::constant(REQUEST), limits::DOCUMENT_BYTES).ok().flatten();
    let wanted = bytes.and_then(|bytes| serde_json::from_slice::<ImportRequest>(&bytes).ok());
    staged.locked && wanted.is_some_and(|wanted| wanted.is_in(staged))
}
