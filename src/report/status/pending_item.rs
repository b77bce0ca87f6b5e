//! Item of the status about the pending generation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::state::pending::{PendingGeneration, UpdateFailure};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::{BootId, COMMIT, ConfigName, GenerationId};

/// Pending generation: staged, or booted and unconfirmed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingItem {
    /// Generation ID.
    pub generation: GenerationId,
    /// `metadata.name` of its config.
    pub config: ConfigName,
    /// OSTree commit of its deployment.
    #[schemars(regex(pattern = COMMIT))]
    pub commit: String,
    /// Place on the way from staging to confirmation.
    pub state: PendingState,
    /// Reason of a rejection; null in every other state.
    pub reason: Option<String>,
    /// True if it is unlocked, and the next reboot switches to it.
    pub unlocked: bool,
    /// rpm-ostreed transactions that staged it; 0 if libostree alone did.
    pub rpm_ostree_transactions: u32,
    /// Failure of the last attempt to finalize or boot it.
    pub failure: Option<UpdateFailure>,
}

/// State of a pending generation, as a boot sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PendingState {
    /// Staged in this boot and locked: a reboot does not switch to it.
    Locked,
    /// Staged in this boot and unlocked: the next reboot switches to it.
    Unlocked,
    /// Staged in an earlier boot, and not finalized at its end.
    Lost,
    /// Staged in this boot; another program discarded or replaced its deployment.
    Discarded,
    /// Finalized; another deployment was booted.
    Finalized,
    /// Booted without its configuration.
    WithoutConfig,
    /// Booted; its boot check has not passed yet.
    Unconfirmed,
    /// Failed its boot check, or was rolled back by an operator: the deployment before it is to boot.
    Rejected,
}

impl PendingState {
    /// Derive the state in the boot `boot_id` of the deployment `booted`. `is_locked` tells of its staged deployment, if
    /// that is still there.
    fn of(
        pending: &PendingGeneration,
        boot_id: &BootId,
        booted: &DeploymentId,
        is_locked: Option<bool>,
    ) -> Self {
        if pending.rejected.is_some() {
            Self::Rejected
        } else if pending.booted_in.contains(boot_id) {
            Self::Unconfirmed
        } else if pending.is_deployed_as(booted) {
            Self::WithoutConfig
        } else if pending.is_finalized {
            Self::Finalized
        } else if pending.staged.staged_in_boot != *boot_id {
            Self::Lost
        } else {
            match is_locked {
                None => Self::Discarded,
                Some(true) => Self::Locked,
                Some(false) => Self::Unlocked,
            }
        }
    }
}

impl PendingItem {
    /// Describe a pending generation as seen in the boot `boot_id` of the deployment `booted`. `is_locked` tells of its
    /// staged deployment, if that is still there.
    #[must_use]
    pub fn of(
        pending: &PendingGeneration,
        boot_id: &BootId,
        booted: &DeploymentId,
        is_locked: Option<bool>,
    ) -> Self {
        let state = PendingState::of(pending, boot_id, booted, is_locked);
        Self {
            generation: pending.generation().to_owned(),
            config: pending.staged.record.config.clone(),
            commit: pending.staged.deployment.commit.clone(),
            state,
            reason: pending.rejected.clone(),
            unlocked: state == PendingState::Unlocked,
            rpm_ostree_transactions: pending.staged.transactions,
            failure: pending.failure.clone(),
        }
    }
}
