//! The time and the boots that a generation has until its boot check must have passed.

use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::state::boot_check::ETCD_POD;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::names::ManagedPath;
use crate::host::Root;
use crate::host::facts::boot;
use crate::transaction::state::settings;
use std::time::Duration;

/// What a generation has to show; the defaults, where the settings cannot be read: that is found anyway when it is compared
/// with its record.
pub(crate) fn boot_check_policy(root: &Root) -> HealthPolicy {
    settings::settings(root).map(|settings| settings.boot_check).unwrap_or_default()
}

pub(crate) fn has_etcd(root: &Root) -> bool {
    root.exists(&ManagedPath::constant(ETCD_POD)).unwrap_or(false)
}

/// After how many boots without a judgement the pending generation is left; `None` where it may be tried for ever.
pub(crate) fn max_boots(root: &Root, pending: Option<&PendingGeneration>) -> Option<usize> {
    boot_check_policy(root).most_boots(pending, has_etcd(root))
}

/// How long what booted may still take; `None` where that is over.
pub(crate) fn time_left(root: &Root) -> Option<Duration> {
    boot_check_policy(root).timeout.checked_sub(boot::uptime()).filter(|left| !left.is_zero())
}
