//! The generation that is to boot next: all that is needed to bind it, to stage it again, and to
//! tell what became of it. Kept in the `/var` that every deployment sees.
//!
//! It is a log of lines that can be checked. The first says what is staged; each later one, that
//! something happened to it.

#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{DeploymentRecord, GenerationRecord};
use crate::core::config::layering::PackageLayering;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::log_line;

/// Where it lies.
pub const PENDING: &str = "/var/lib/flameholder/pending";

/// The version that this release writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// What is staged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedGeneration {
    /// [`VERSION`].
    pub version: u32,
    /// The record of the generation as far as it is known before it is bound.
    pub record: GenerationRecord,
    /// The deployment that is staged.
    pub deployment: DeploymentRecord,
    /// All arguments of its boot entry, in order, without `ostree=`.
    pub kernel_arguments: Vec<String>,
    /// What the deployment's origin says of packages.
    #[serde(default)]
    pub layering: PackageLayering,
    /// The configuration document.
    pub document: Value,
    /// The deployment that was running when it was staged, whose `/etc` is merged.
    pub base: DeploymentId,
    /// The generation that it replaces.
    pub from: Option<String>,
    /// ID of the boot in which it was staged: what is staged is lost with the boot.
    pub staged_in: String,
    /// What went wrong with earlier attempts, oldest first.
    #[serde(default)]
    pub failures: Vec<UpdateFailure>,
    /// Whether it completes a first boot: what it replaces was never fit for work, and is not gone back to.
    #[serde(default)]
    pub completes_first_boot: bool,
    /// How many transactions of rpm-ostreed it took to stage it.
    #[serde(default)]
    pub transactions: u32,
    /// Whether a network interface was up when it was staged.
    #[serde(default)]
    pub had_network: bool,
}

/// An attempt that did not lead to the generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateFailure {
    /// ID of the boot whose shutdown it was.
    pub boot_id: String,
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What was said.
    pub reason: String,
}

/// Kinds of failures, by what to do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The configuration could not be bound to the deployment.
    ConfigNotWritten,
    /// It was bound, and libostree could not finalize the deployment.
    NotFinalized,
    /// The system went down before or while that happened, and left no word.
    Interrupted,
    /// The system was rebooted while the deployment was locked.
    NotUnlocked,
    /// The deployment booted without its configuration, twice.
    BootedWithoutConfig,
}

/// Something that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reached", rename_all = "camelCase")]
pub enum PendingEntry {
    /// The next shutdown of this boot switches to it.
    Unlocked {
        /// ID of the boot.
        #[serde(rename = "bootId")]
        boot_id: String,
    },
    /// An attempt failed.
    Failed(UpdateFailure),
    /// It booted without its configuration, which is then bound where it runs.
    BootedWithoutConfig {
        /// ID of the boot.
        #[serde(rename = "bootId")]
        boot_id: String,
    },
    /// It is finalized: the bootloader starts it from now on.
    Finalized {
        /// ID of the boot whose shutdown it was.
        #[serde(rename = "bootId")]
        boot_id: String,
    },
    /// It runs, whole, and was not found healthy yet.
    Booted {
        /// ID of the boot.
        #[serde(rename = "bootId")]
        boot_id: String,
    },
    /// It is not healthy, and the deployment that it replaced is to boot again.
    Rejected {
        /// ID of the boot in which that was decided.
        #[serde(rename = "bootId")]
        boot_id: String,
        /// Why, in one sentence without a full stop.
        reason: String,
    },
}

/// A pending generation as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingGeneration {
    /// What is staged.
    pub intent: StagedGeneration,
    /// ID of the boot in which it was last armed.
    pub armed_in: Option<String>,
    /// The latest failure, earlier stagings included.
    pub failure: Option<UpdateFailure>,
    /// IDs of the boots in which it ran without its configuration.
    pub unbound_in: Vec<String>,
    /// Whether the bootloader starts it.
    pub is_finalized: bool,
    /// IDs of the boots in which it ran whole.
    pub booted_in: Vec<String>,
    /// Why it is to be left.
    pub given_up: Option<String>,
}

/// Why a pending generation cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// A line is damaged, or is none of ours.
    #[error("line {line} of {PENDING} is damaged; remove the file, and apply the configuration again")]
    Damaged {
        /// Counted from 1.
        line: usize,
        /// What is wrong, where it is known.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// Another release's.
    #[error(
        "{PENDING} has version {0} and this release reads {VERSION}; use the release that wrote it, or remove the file and apply the configuration again"
    )]
    Version(u32),
}

impl StagedGeneration {
    /// The first line.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }
}

impl PendingEntry {
    /// The line that says so.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        log_line::render(self)
    }
}

impl PendingGeneration {
    /// Reads it.
    pub fn parse(bytes: &[u8]) -> Result<Self, PendingError> {
        let mut lines = log_line::whole(bytes).enumerate();
        let damaged = |index: usize, source| PendingError::Damaged { line: index + 1, source };
        let first = lines.next().and_then(|(_, first)| first).ok_or_else(|| damaged(0, None))?;
        ensure_version(first)?;
        let intent: StagedGeneration =
            serde_json::from_slice(first).map_err(|source| damaged(0, Some(source)))?;
        let mut pending = Self::staged(intent);
        for (index, line) in lines {
            let line = line.ok_or_else(|| damaged(index, None))?;
            match serde_json::from_slice(line).map_err(|source| damaged(index, Some(source)))? {
                PendingEntry::Unlocked { boot_id } => pending.armed_in = Some(boot_id),
                PendingEntry::Failed(failure) => pending.failure = Some(failure),
                PendingEntry::BootedWithoutConfig { boot_id } => pending.unbound_in.push(boot_id),
                PendingEntry::Finalized { .. } => pending.is_finalized = true,
                PendingEntry::Booted { boot_id } => pending.booted_in.push(boot_id),
                PendingEntry::Rejected { reason, .. } => pending.given_up = Some(reason),
            }
        }
        Ok(pending)
    }

    /// What is staged, and nothing happened to it yet.
    #[must_use]
    pub fn staged(intent: StagedGeneration) -> Self {
        let failure = intent.failures.last().cloned();
        Self {
            intent,
            armed_in: None,
            failure,
            unbound_in: Vec::new(),
            is_finalized: false,
            booted_in: Vec::new(),
            given_up: None,
        }
    }

    /// The generation's name.
    #[must_use]
    pub fn generation(&self) -> &str {
        &self.intent.record.generation
    }

    /// What is to be staged again after `failure`, as `deployment` in the boot `staged_in`.
    #[must_use]
    pub fn again(
        &self,
        failure: UpdateFailure,
        deployment: DeploymentRecord,
        staged_in: String,
    ) -> StagedGeneration {
        let mut intent = StagedGeneration { deployment, staged_in, ..self.intent.clone() };
        intent.failures.push(failure);
        intent
    }
}

fn ensure_version(first: &[u8]) -> Result<(), PendingError> {
    match log_line::version(first) {
        Ok(VERSION) => Ok(()),
        Ok(version) => Err(PendingError::Version(version)),
        Err(source) => Err(PendingError::Damaged { line: 1, source: Some(source) }),
    }
}
