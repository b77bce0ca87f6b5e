//! Jobs for trust material of the cluster.

use crate::core::daemon::lifecycle::DaemonEvent;
use crate::core::trust::document::{TrustDocument, TrustVersion};
use crate::core::trust::trust_plan::KubeletRestart;
use crate::core::values::causes::first_of;
use crate::core::values::profile::Profile;
use crate::core::values::refusal::RefusalList;
use crate::daemon::jobs::work::NAMED;
use crate::host::{RunningHost, SystemdServices};
use crate::transaction::trust::error::TrustMaterialError;
use crate::transaction::trust::kubelet_restart;
use crate::transaction::{TransactionError, handover, trust};

/// Apply the trust material in `document`.
pub(super) fn apply(
    host: &RunningHost,
    version: Option<TrustVersion>,
    document: &[u8],
    profile: Profile,
) -> Result<DaemonEvent, TransactionError> {
    handover::ensure_mcd_stopped()?;
    let document: TrustDocument = serde_json::from_slice(document)
        .map_err(|_| TrustMaterialError::Refused(RefusalList::one("", "the document is damaged")))?;
    let locked = host.lock()?;
    let applied = trust::apply(&locked, &SystemdServices::system(), &document, profile)?;
    for reason in &applied.left_out {
        log::warn!("trust material: {reason}");
    }
    let restart = match applied.kubelet {
        KubeletRestart::Unneeded => "",
        KubeletRestart::Now => "; the kubelet was restarted with the new CA of the API server",
        KubeletRestart::Deferred => {
            "; the kubelet is restarted at the next certificate error, or in 12 hours"
        }
    };
    if !applied.changed.is_empty() {
        let paths: Vec<String> = applied.changed.iter().map(ToString::to_string).collect();
        log::info!("applied trust material: {}{restart}", first_of(&paths, NAMED));
    }
    Ok(DaemonEvent::TrustApplied(version))
}

/// Restart the kubelet, if its restart waits.
pub(super) fn restart_kubelet(host: &RunningHost) -> Result<DaemonEvent, TransactionError> {
    let locked = host.lock()?;
    if kubelet_restart::carry_out(&locked, &SystemdServices::system())? {
        log::info!("restarted the kubelet, for it to read the new CA of the API server");
    }
    Ok(DaemonEvent::KubeletRestarted)
}
