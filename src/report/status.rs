//! Document of `status -o json` (`docs/schema/status.json`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::image_policy::SignatureVerdict;
use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::HealthReport;
use crate::core::state::journal::{Journal, TransactionState};
use crate::core::state::pending::{PendingGeneration, UpdateFailure};
use crate::core::state::record::GenerationRecord;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::{
    BootId, COMMIT, ConfigDigest, ConfigName, DIGEST, GenerationId, IMAGE, STATEROOT,
};
use crate::core::values::image::boot_image::BootImage;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// State of a tree, a sysroot or the running host.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Generation of a plain tree; null before the first change, and for a sysroot, whose deployments have
    /// their own.
    pub generation: Option<GenerationItem>,
    /// Deployments of a sysroot in boot order; empty for a plain tree.
    pub deployments: Vec<DeploymentItem>,
    /// Change whose journal is open, in progress or interrupted; null without one. In a sysroot: the one in
    /// the `/var` of the deployment that boots next.
    pub transaction: Option<TransactionItem>,
    /// Generation of the running host that is staged for the next boot, or booted and unconfirmed.
    pub pending: Option<PendingItem>,
    /// Config that failed its boot check on the running host, or that an operator rolled back from. It is not
    /// retried until `flameholder retry` or another desired config.
    pub blocked: Option<BlockedTarget>,
    /// Kernel arguments of the running host that take effect with the next full reboot, because a soft reboot kept the
    /// running kernel; null if the kernel has those of the boot entry.
    pub kernel_arguments_after_reboot: Option<ArgumentsItem>,
    /// Last report of the boot check of the running host in this boot.
    pub boot_check: Option<HealthReport>,
    /// Seconds until the boot check of an unconfirmed generation times out; null without one, and after that.
    pub boot_check_seconds_left: Option<u64>,
    /// Last report of the daemon in this boot; kept after the daemon ends.
    pub daemon: Option<DaemonReport>,
    /// Agent that made this document: the OS image's, or a copy beside the image.
    pub agent: AgentItem,
    /// Documents of the agent on the running host that it cannot read, and works without. They are kept for the release
    /// that wrote them.
    pub unreadable: Vec<UnreadableDocument>,
    /// Origin of the running host; null elsewhere.
    pub origin: Option<OriginItem>,
    /// Free space of the running host where updates need it; empty elsewhere.
    pub space: Vec<SpaceItem>,
}

/// Origin of a host.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OriginItem {
    /// Image that the host was installed from; null if its installer left no document.
    pub boot_image: Option<BootImage>,
    /// Changes of the config since the first boot that only an installation applies, at most 100; empty if the config of
    /// the first boot is not on the host.
    pub irreconcilable_changes: Vec<IrreconcilableChange>,
    /// Documents about the origin that cannot be read.
    pub unreadable: Vec<UnreadableDocument>,
}

/// Free space of one file system.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceItem {
    /// Directory on the file system: `/boot`, `/sysroot` or `/var`.
    pub path: String,
    /// Bytes that are free for the agent.
    pub free: u64,
    /// Size in bytes.
    pub total: u64,
}

/// Executable of the agent.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentItem {
    /// Version, as `flameholder --version` prints it.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Path, with links resolved. An adopted copy lies below `/usr/local/libexec/flameholder`, which is in `/var` on
    /// a host of OSTree.
    #[schemars(regex(pattern = "^/"))]
    pub path: String,
}

/// Document of the agent that cannot be read: damaged, or of a newer release.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnreadableDocument {
    pub path: String,
    /// Reason, in one line.
    pub reason: String,
}

/// Changes to the kernel arguments that the next full reboot makes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ArgumentsItem {
    /// Arguments of the boot entry that the running kernel lacks; a quoted one is one item, with its quotes.
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub added: KernelArguments,
    /// Arguments of the running kernel that the boot entry lacks.
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub removed: KernelArguments,
}

impl ArgumentsItem {
    /// Describe a difference; `None` if there is none.
    #[must_use]
    pub fn of(skew: &ArgumentSkew) -> Option<Self> {
        let ArgumentSkew { added, removed } = skew.clone();
        (!skew.is_empty()).then_some(Self { added, removed })
    }
}

/// Pending generation: staged, or booted and unconfirmed.
#[derive(Debug, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
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

/// Change whose journal is open: under way while another process holds the lock, else interrupted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransactionItem {
    /// Generation before the change.
    pub current: Option<GenerationId>,
    /// Generation that the change creates.
    pub target: Option<GenerationId>,
    /// Last state that the journal records. Until it is `committed`, recovery undoes the change.
    pub state: JournalState,
    /// Number of service actions that may have taken effect, in the state `acting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<usize>,
    /// True if another process works on the change; false if it was interrupted and `flameholder recover`
    /// has to end it.
    pub in_progress: bool,
}

/// State of an open change.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JournalState {
    /// Files are being put in place.
    Prepared,
    /// All files are in place; services are being reloaded and restarted.
    Acting,
    /// The change is kept; only temporary files remain to be removed.
    Committed,
}

impl TransactionItem {
    /// Describe an open change.
    #[must_use]
    pub fn of(open: Journal, in_progress: bool) -> Self {
        let (state, begun) = match open.state {
            TransactionState::Prepared => (JournalState::Prepared, None),
            TransactionState::Acting { begun } => (JournalState::Acting, Some(begun)),
            TransactionState::Committed => (JournalState::Committed, None),
        };
        Self { current: open.intent.current, target: open.intent.target, state, begun, in_progress }
    }
}

/// Generation as its record describes it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationItem {
    /// Generation ID: 128 bits in hexadecimal digits.
    pub generation: GenerationId,
    /// `metadata.name` of its config.
    pub config: ConfigName,
    /// Canonical digest of the config.
    pub config_hash: ConfigDigest,
    /// True if the record names the deployment that holds it; false for a foreign deployment, whose `/etc`
    /// was merged from a generation.
    pub record_matches: bool,
    /// True if the deployment is staged, and gets record and configuration when it is finalized.
    pub at_finalization: bool,
    /// Verdict on the signature of its OS image at the pull; null where it was not pulled for a generation.
    pub signature: Option<SignatureVerdict>,
    /// Parts of the config that were not applied, each with the reason.
    #[schemars(inner(length(min = 1)))]
    pub unsupported: Vec<String>,
    /// Files that activation puts in place, each with the reason.
    #[schemars(inner(length(min = 1)))]
    pub deferred: Vec<String>,
}

/// Deployment of a sysroot.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentItem {
    /// True for the deployment that the next boot starts: the first in boot order that is not locked.
    pub next: bool,
    /// True if the deployment is the running system.
    pub booted: bool,
    /// True if the deployment is finalized at shutdown, unless it is locked.
    pub staged: bool,
    /// True if the deployment is staged and must be unlocked before it is finalized.
    pub locked: bool,
    /// True if `ostree admin pin` keeps the deployment.
    pub pinned: bool,
    /// Stateroot, whose `/var` the deployment shares.
    #[schemars(regex(pattern = STATEROOT))]
    pub stateroot: String,
    /// OSTree commit checksum, 64 hex digits.
    #[schemars(regex(pattern = COMMIT))]
    pub commit: String,
    /// Number that tells deployments of one commit apart.
    pub serial: u32,
    /// Version in the image's metadata.
    pub version: Option<String>,
    /// Container image of the origin, with scheme and transport; null for a plain OSTree commit.
    #[schemars(regex(pattern = IMAGE))]
    pub image: Option<String>,
    /// Digest of the image's manifest.
    #[schemars(regex(pattern = DIGEST))]
    pub manifest_digest: Option<String>,
    /// Kernel arguments of the boot entry, without `ostree=`; a quoted one is one item, with its quotes.
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub kernel_arguments: KernelArguments,
    /// Generation whose record is in its `/etc`, or will be when it is finalized.
    pub generation: Option<GenerationItem>,
}

impl StatusDocument {
    /// Build the document of a plain tree.
    #[must_use]
    pub fn of_tree(agent: AgentItem, record: Option<&GenerationRecord>) -> Self {
        let generation = record.map(|record| GenerationItem::of(record, true));
        Self {
            schema: SCHEMA,
            generation,
            deployments: Vec::new(),
            transaction: None,
            pending: None,
            blocked: None,
            kernel_arguments_after_reboot: None,
            boot_check: None,
            boot_check_seconds_left: None,
            daemon: None,
            agent,
            unreadable: Vec::new(),
            origin: None,
            space: Vec::new(),
        }
    }

    /// Build the document of a sysroot; the caller adds the state of a running host.
    #[must_use]
    pub fn of_sysroot(agent: AgentItem, deployments: Vec<DeploymentItem>) -> Self {
        Self { deployments, ..Self::of_tree(agent, None) }
    }
}

impl GenerationItem {
    /// Describe a record; `record_matches` is true if it names the deployment that holds it.
    #[must_use]
    pub fn of(record: &GenerationRecord, record_matches: bool) -> Self {
        Self {
            generation: record.generation.clone(),
            config: record.config.clone(),
            config_hash: record.config_hash.clone(),
            record_matches,
            at_finalization: false,
            signature: record.deployment.as_ref().and_then(|applied| applied.signature.clone()),
            unsupported: record.unsupported.clone(),
            deferred: record.deferred.clone(),
        }
    }

    /// Describe the generation of a staged deployment, whose record finalization writes.
    #[must_use]
    pub fn at_finalization(record: &GenerationRecord) -> Self {
        Self { at_finalization: true, ..Self::of(record, true) }
    }
}
