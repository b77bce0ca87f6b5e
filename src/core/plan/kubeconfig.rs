//! Mode of the kubelet's bootstrap kubeconfig, which holds credentials. MCD makes it private in every update.

use super::facts::TreeFacts;
use super::steps::PlanStep;
use crate::core::config::host_config::HostConfig;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::KUBECONFIG;
use crate::core::values::profile::Profile;
use crate::core::values::tree::FileAttributes;

const PRIVATE: u32 = 0o600;

/// Return the step that makes the kubeconfig private; `None` if it is private, absent, or listed by the
/// desired config, which then decides its mode.
#[must_use]
pub fn make_private(facts: &TreeFacts, desired: &HostConfig, profile: Profile) -> Option<PlanStep> {
    let found = facts.kubeconfig?;
    let is_wider = found.mode & !PRIVATE != 0;
    if profile != Profile::Mcd || !is_wider || desired.files.contains_key(KUBECONFIG) {
        return None;
    }
    let attributes = FileAttributes { mode: found.mode & PRIVATE, ..found };
    Some(PlanStep::SetAttributes { path: ManagedPath::constant(KUBECONFIG), attributes })
}
