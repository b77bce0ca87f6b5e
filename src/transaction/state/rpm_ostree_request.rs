//! What rpm-ostreed was asked for in this boot. It goes on when whoever asked is gone, and what it stages then would be
//! taken for somebody else's.

use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostError, Root};
use crate::os::{Deployment, ImportRequest};

use crate::transaction::engine::atomic_file;

/// What is staged is gone with the boot, and this with it.
const ASKED: &str = "/run/flameholder/rpm-ostree-request.json";
const NEW_ASKED: &str = "/run/flameholder/rpm-ostree-request.json.new";

/// Notes it. It comes first: there is no moment at which something of ours is staged that nobody knows of.
pub(crate) fn write_request(root: &Root, wanted: &ImportRequest) -> Result<(), HostError> {
    let (path, new) = (ManagedPath::constant(ASKED), ManagedPath::constant(NEW_ASKED));
    let text = serde_json::to_vec(wanted).expect("what is wanted has only string keys");
    atomic_file::write_to_run(root, &path, &new, &text)
}

/// Whether a staged deployment is what came of it: it is what was asked for last, and locked, as nobody else has it. The
/// note stays: what was asked for may still be under way.
pub(crate) fn is_staged_by_request(root: &Root, staged: &Deployment) -> bool {
    let bytes = root.read(&ManagedPath::constant(ASKED), limits::DOCUMENT_BYTES).ok().flatten();
    let wanted = bytes.and_then(|bytes| serde_json::from_slice::<ImportRequest>(&bytes).ok());
    staged.locked && wanted.is_some_and(|wanted| wanted.is_in(staged))
}
