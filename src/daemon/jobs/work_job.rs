//! Jobs of work processes, and the requests for them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::daemon::lifecycle::ConfigRef;
use crate::core::trust::document::TrustVersion;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;

/// Job of a work process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::daemon) enum WorkJob {
    Observe {
        /// True if an operator asks to release the blocked target before.
        releases_block: bool,
    },
    Prepare {
        desired: ConfigRef,
        /// Drifted paths that are not repaired now.
        held_back: BTreeSet<ManagedPath>,
    },
    /// Request the grant to disrupt the host.
    RequestGrant(ConfigRef),
    /// End a grant: run the hooks if its update is confirmed, and release its slot.
    EndGrant {
        is_confirmed: bool,
    },
    Apply(ConfigRef),
    Unlock(ConfigRef),
    Reboot {
        target: ConfigRef,
        /// Time for which inhibitor locks have blocked the reboot.
        waited: Duration,
    },
    Verify {
        /// Drifted paths that are not repaired now.
        held_back: BTreeSet<ManagedPath>,
    },
    /// Apply trust material of this version.
    ApplyTrust(Option<TrustVersion>),
    /// Restart the kubelet, if its restart waits.
    RestartKubelet,
    /// Pull missing images of the pinned image sets. Runs beside the other jobs, and changes no configuration.
    PullImages,
    /// Run the hooks of notifications. Runs beside the other jobs.
    Notify {
        phase: String,
        config: Option<ConfigName>,
    },
    /// Have the container runtime keep the images of the pinned image sets.
    PinImages,
}

/// Request on standard input: one line of JSON, followed by the bytes of config and policy.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::daemon) struct WorkRequest {
    pub(in crate::daemon) job: WorkJob,
    pub(in crate::daemon) profile: Profile,
    #[serde(default)]
    pub(in crate::daemon) is_in_cluster: bool,
    /// Length of the config in bytes; 0 means the current config, read from disk.
    pub(in crate::daemon) document: usize,
    /// Length in bytes of the policy that follows the config.
    pub(in crate::daemon) policy: Option<usize>,
}
