//! Errors of trust material.

use crate::core::values::refusal::RefusalList;
use crate::host::ServiceError;

/// Trust material that cannot be applied. Unless a variant says otherwise, nothing on the host has changed.
#[derive(Debug, thiserror::Error)]
pub enum TrustMaterialError {
    /// The cluster's own objects hold contents that the host's programs could not read.
    #[error("the cluster's trust material is refused: {0}")]
    Refused(RefusalList),
    /// Paths on the host are in the way.
    #[error("trust material cannot be written: {}", .0.join("; "))]
    Obstructed(Vec<String>),
    /// The kubelet's restart failed. It is tried again.
    #[error("the kubelet has a new CA of the API server and has not read it yet")]
    Kubelet(#[source] Box<ServiceError>),
}
