//! Pending generation: the staged deployment with its configuration, and the events of its way to a confirmed
//! one (unlocked, finalized, booted, rejected). It holds all data needed to finalize it, to stage it again,
//! and to roll it back; it lies in `/var`, which every deployment sees.
//!
//! The file is a log of checksummed lines. The first line describes the staged generation; each later line
//! records one event.

pub mod rollback_pin;
#[cfg(test)]
pub(crate) mod tests;
pub mod unconfirmed_mark;
pub mod workload_gate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{DeploymentRecord, GenerationRecord};
use crate::core::config::layering::PackageLayering;
use crate::core::state::log_line;
use crate::core::state::log_line::FirstLineError;
use crate::core::state::own_document::{UpgradeStep, next_schema};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::kernel_arguments::KernelArguments;

/// Path of the pending record.
pub const PENDING: &str = "/var/lib/flameholder/pending";

/// Version of the pending record that this release writes. It also reads older ones.
pub const VERSION: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade the first line of a pending record, from version 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Staged generation: the pending record's first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedGeneration {
    pub version: u32,
    /// Record to be written into the deployment's `/etc`; finalization completes it.
    #[serde(deserialize_with = "GenerationRecord::parse_member")]
    pub record: GenerationRecord,
    /// Staged deployment.
    pub deployment: DeploymentRecord,
    /// All kernel arguments of the boot entry, in order, without `ostree=`.
    pub kernel_arguments: KernelArguments,
    /// Layered packages and overrides, as the deployment's origin lists them.
    #[serde(default)]
    pub layering: PackageLayering,
    /// Configuration document (the `MachineConfig`).
    pub document: Value,
    /// Deployment that was booted at staging, whose `/etc` is merged into the new one.
    pub base: DeploymentId,
    /// Generation of the `base` deployment; `None` where nothing was applied to it.
    pub replaces: Option<GenerationId>,
    /// ID of the boot in which it was staged; a staged deployment is lost with that boot.
    pub staged_in_boot: BootId,
    /// Failures of earlier attempts, oldest first.
    #[serde(default)]
    pub failures: Vec<UpdateFailure>,
    /// True if this generation completes a first boot. The deployment before it was never configured, so
    /// there is no rollback to it.
    #[serde(default)]
    pub completes_first_boot: bool,
    /// Number of rpm-ostreed transactions that staging took.
    #[serde(default)]
    pub transactions: u32,
    /// True if a network interface was up at staging; the boot check then expects one as well.
    #[serde(default)]
    pub had_network: bool,
}

/// Failed attempt to boot a pending generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateFailure {
    /// ID of the boot at whose shutdown the attempt failed.
    pub boot_id: BootId,
    pub kind: FailureKind,
    /// Error text.
    pub reason: String,
}

/// Point at which an attempt to boot a pending generation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The configuration could not be written into the deployment.
    ConfigNotWritten,
    /// The configuration was written, but libostree could not finalize the deployment.
    NotFinalized,
    /// The system went down before or during finalization, and recorded no failure.
    Interrupted,
    /// The system was rebooted while the deployment was locked.
    NotUnlocked,
    /// The deployment booted without its configuration, twice.
    BootedWithoutConfig,
}

/// Event in the life of a pending generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum PendingEntry {
    /// The deployment was unlocked: the next shutdown of this boot finalizes it.
    Unlocked {
        #[serde(rename = "bootId")]
        boot_id: BootId,
    },
    /// Finalization failed.
    Failed(UpdateFailure),
    /// The deployment booted without its configuration, which activation then writes into the running `/etc`.
    BootedWithoutConfig {
        #[serde(rename = "bootId")]
        boot_id: BootId,
    },
    /// The deployment was finalized: the bootloader starts it from now on.
    Finalized {
        /// ID of the boot at whose shutdown it was finalized.
        #[serde(rename = "bootId")]
        boot_id: BootId,
    },
    /// The generation booted with its configuration; its boot check has not passed yet.
    Booted {
        #[serde(rename = "bootId")]
        boot_id: BootId,
    },
    /// An orderly shutdown ended the boot before its boot check did; such a boot says nothing about the
    /// generation.
    ShutDown {
        #[serde(rename = "bootId")]
        boot_id: BootId,
    },
    /// The generation failed its boot check, or an operator rolled it back: the deployment before it is to
    /// boot.
    Rejected {
        /// ID of the boot in which it was rejected.
        #[serde(rename = "bootId")]
        boot_id: BootId,
        /// Reason, in one sentence without a full stop.
        reason: String,
    },
    /// Event that only the next release knows.
    #[cfg(feature = "next-schema")]
    Next,
}

/// Parsed pending record.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingGeneration {
    pub staged: StagedGeneration,
    /// ID of the boot in which the deployment was last unlocked.
    pub unlocked_in: Option<BootId>,
    /// Latest failure, those of earlier stagings included.
    pub failure: Option<UpdateFailure>,
    /// IDs of the boots in which the deployment ran without its configuration.
    pub booted_without_config_in: Vec<BootId>,
    /// True if the bootloader starts the deployment.
    pub is_finalized: bool,
    /// IDs of the boots in which the generation ran with its configuration.
    pub booted_in: Vec<BootId>,
    /// IDs of those boots that an orderly shutdown ended before the boot check did.
    pub shut_down_in: Vec<BootId>,
    /// Reason for rolling it back. The record stays until another deployment has booted.
    pub rejected: Option<String>,
}

/// Reason why the pending record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// Line whose checksum does not match.
    #[error("line {line} of {PENDING} is damaged")]
    Damaged { line: usize },
    /// Intact line that does not parse.
    #[error(
        "line {line} of {PENDING} has an entry that this release does not know; a newer release wrote it"
    )]
    Unknown {
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    /// Pending record that a newer release wrote.
    #[error(
        "{PENDING} has version {0}, and this release reads versions up to {VERSION}; a newer release wrote it"
    )]
    Version(u32),
}

impl StagedGeneration {
    /// Render the pending record's first line.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }
}

impl PendingEntry {
    /// Render the line that records this event.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        #[cfg(feature = "next-schema")]
        if matches!(self, Self::Booted { .. }) {
            return [log_line::render(self), log_line::render(&Self::Next)].concat();
        }
        log_line::render(self)
    }
}

impl PendingGeneration {
    /// Return the reason of the reboot that boots this generation, as logged-in users and the journal see it.
    #[must_use]
    pub fn reboot_reason(&self) -> String {
        format!("flameholder: reboot into {}, generation {}", self.staged.record.config, self.generation())
    }

    /// Parse a pending record; fail on damage and on another release's version.
    pub fn parse(bytes: &[u8]) -> Result<Self, PendingError> {
        let mut lines = log_line::whole(bytes).enumerate();
        let damaged = |index: usize| PendingError::Damaged { line: index + 1 };
        let unknown = |index: usize| move |source| PendingError::Unknown { line: index + 1, source };
        let first = lines.next().and_then(|(_, first)| first).ok_or_else(|| damaged(0))?;
        let intent = log_line::first_line(first, VERSION, UPGRADES);
        let intent: StagedGeneration = intent.map_err(|error| match error {
            FirstLineError::Unknown(source) => unknown(0)(source),
            FirstLineError::Version(version) => PendingError::Version(version),
        })?;
        let mut pending = Self::new(StagedGeneration { version: VERSION, ..intent });
        for (index, line) in lines {
            let line = line.ok_or_else(|| damaged(index))?;
            match serde_json::from_slice(line).map_err(unknown(index))? {
                PendingEntry::Unlocked { boot_id } => pending.unlocked_in = Some(boot_id),
                PendingEntry::Failed(failure) => pending.failure = Some(failure),
                PendingEntry::BootedWithoutConfig { boot_id } => {
                    pending.booted_without_config_in.push(boot_id);
                }
                PendingEntry::Finalized { .. } => pending.is_finalized = true,
                PendingEntry::Booted { boot_id } => pending.booted_in.push(boot_id),
                PendingEntry::ShutDown { boot_id } => pending.shut_down_in.push(boot_id),
                PendingEntry::Rejected { reason, .. } => pending.rejected = Some(reason),
                #[cfg(feature = "next-schema")]
                PendingEntry::Next => {}
            }
        }
        Ok(pending)
    }

    /// Start the pending record of a newly staged generation, without events.
    #[must_use]
    pub fn new(intent: StagedGeneration) -> Self {
        let failure = intent.failures.last().cloned();
        Self {
            staged: intent,
            unlocked_in: None,
            failure,
            booted_without_config_in: Vec::new(),
            is_finalized: false,
            booted_in: Vec::new(),
            shut_down_in: Vec::new(),
            rejected: None,
        }
    }

    #[must_use]
    pub fn generation(&self) -> &GenerationId {
        &self.staged.record.generation
    }

    /// Return true if `deployment` is the one of this generation.
    #[must_use]
    pub fn is_deployed_as(&self, deployment: &DeploymentId) -> bool {
        self.staged.deployment.id() == *deployment
    }

    /// Return the generation to stage again after `failure`, as `deployment` in the boot `staged_in_boot`.
    #[must_use]
    pub fn restaged(
        &self,
        failure: UpdateFailure,
        deployment: DeploymentRecord,
        staged_in_boot: BootId,
    ) -> StagedGeneration {
        let mut intent = StagedGeneration { deployment, staged_in_boot, ..self.staged.clone() };
        intent.failures.push(failure);
        intent
    }
}
