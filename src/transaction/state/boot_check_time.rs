//! Limits of the boot check: its timeout, and the number of boots without a result.

use std::time::Duration;

use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::state::boot_check::ETCD_POD;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::names::ManagedPath;
use crate::host::{Root, RunningHost};
use crate::transaction::state::settings::settings_or_default;

/// Return the boot check settings. Unreadable settings yield the defaults; the drift comparison reports
/// them.
pub(crate) fn boot_check_policy(root: &Root) -> HealthPolicy {
    settings_or_default(root).boot_check
}

/// Longest wait for a mount: systemd's default timeout for a device (90 seconds), and a margin. After the timeout of the
/// boot check it would be in vain.
const MOUNT: Duration = Duration::from_secs(120);

/// Return how long the activation of an unconfirmed generation waits for a mount.
pub(crate) fn mount_limit(root: &Root) -> Duration {
    boot_check_policy(root).timeout.min(MOUNT)
}

pub(crate) fn has_etcd(root: &Root) -> bool {
    root.exists(&ManagedPath::constant(ETCD_POD)).unwrap_or(false)
}

/// Return the number of boots without a boot check result after which the pending generation is rolled
/// back; `None` without a limit.
pub(crate) fn max_boots(root: &Root, pending: Option<&PendingGeneration>) -> Option<usize> {
    boot_check_policy(root).max_boots(pending, has_etcd(root))
}

/// Time past the timeout in which the check programs of the last round may still run.
const LAST_ROUND: Duration = Duration::from_secs(600);

/// Return true if a boot check without a result should have ended: its unit was stopped or does not run.
pub(crate) fn is_overdue(host: &RunningHost) -> bool {
    host.system.time_since_boot() > boot_check_policy(&host.root).timeout.saturating_add(LAST_ROUND)
}

/// Return the time until the boot check times out; `None` after that.
pub(crate) fn time_left(host: &RunningHost) -> Option<Duration> {
    let timeout = boot_check_policy(&host.root).timeout;
    timeout.checked_sub(host.system.time_since_boot()).filter(|left| !left.is_zero())
}
