//! Sources of the desired config: a cluster ([`kube`]), a directory ([`directory`]), a config server ([`config_server`]) or an
//! artifact in a registry ([`artifact`]). A source reports each change of the desired config, fetches configs and publishes
//! the daemon's phase.

pub mod artifact;
pub mod config_server;
pub mod contents_cache;
pub mod contents_fetcher;
pub mod directory;
pub mod kube;
pub mod kube_pool;
pub mod node_reporter;
pub mod own_drain;
mod polled;

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::ClusterError;
use crate::core::config::machine_config::MachineConfig;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, DaemonProblem, Lifecycle};
use crate::core::pinned_images::pin_state::PinState;
use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
use crate::core::trust::document::TrustVersion;
use crate::core::values::backoff::{RetryClass, first_retry};
use crate::core::values::tree::ContentDigest;
use crate::host::facts::boot;
use crate::host::memory_file::MemoryFile;

/// Request of the daemon to its source.
#[derive(Debug)]
pub enum SourceCommand {
    /// Publish the daemon's state; answered by [`SourceEvent::Published`].
    Publish(Box<LifecycleView>),
    /// Fetch the desired config; answered by [`SourceEvent::Fetched`].
    Fetch(ConfigRef),
}

/// State of the daemon, numbered for publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleView {
    /// Sequence number; grows with each view.
    pub number: u64,
    pub lifecycle: Lifecycle,
    /// Changes of the config since the installation that only another one applies.
    pub irreconcilable: Arc<[IrreconcilableChange]>,
}

/// Report of a source to the daemon.
#[derive(Debug)]
pub enum SourceEvent {
    /// The desired config changed.
    DesiredChanged(ConfigRef),
    /// The source was read, and desires no config: cause and way out.
    NoDesiredConfig(String),
    /// The view with this number is published, and so are all earlier ones or a summary of them.
    Published(u64),
    /// The fetched config, or the reason why it is not available.
    Fetched(ConfigRef, Result<FetchedConfig, FetchFailure>),
    /// The node is drained for this config.
    Drained(ConfigRef),
    /// The drain for this config waits for something, which it names.
    DrainWaits(ConfigRef, String),
    /// The drain for this config took too long: the last thing that it waited for.
    DrainGivenUp(ConfigRef, String),
    /// The node is uncordoned.
    Uncordoned,
    /// The node cannot be uncordoned yet, for this reason.
    UncordonWaits(String),
    /// An operator asks by the Node to release the blocked target; the request as the Node has it, again and again.
    RetryRequested(String),
    /// Another node disruption policy, or other overrides, since the last attempt to update failed.
    PolicyChanged,
    /// The source named another artifact, with this digest, and its config is the desired one from now on.
    ArtifactPulled(String),
    /// Error of the source itself; `None` if there is none, also again and again.
    SourceError(Option<String>),
    /// The cluster has other trust material.
    TrustChanged(TrustDelivery),
    /// Trust material exists, and cannot be read.
    TrustUnavailable(DaemonProblem),
    /// The pinned image sets of this node's pools are others, or it has some for the first time.
    PinsChanged(PinDelivery),
    /// The connection to the cluster failed.
    ConnectionFailed {
        /// True if the server's certificate is not trusted.
        is_untrusted: bool,
    },
}

/// Return the reference to a config outside a cluster, where equal names may have different contents.
fn config_ref(config: &MachineConfig) -> ConfigRef {
    let digest = ContentDigest::of(config.document.to_string().as_bytes());
    ConfigRef { config: config.name.clone(), image: None, digest: Some(digest.to_string().into()) }
}

/// Return the delay after this number of failed requests in a row.
fn delay_after(failures: u32) -> Duration {
    match failures {
        1 => first_retry(boot::jitter()),
        failures => RetryClass::Repair.backoff(failures.saturating_sub(1), boot::jitter()),
    }
}

/// Take a drain and an uncordon for done: no component drains the node.
fn acknowledge(view: &LifecycleView, send: impl Fn(SourceEvent)) {
    match &view.lifecycle.phase {
        DaemonPhase::Draining { target, .. } => send(SourceEvent::Drained(target.clone())),
        DaemonPhase::Uncordoning { .. } => send(SourceEvent::Uncordoned),
        _ => {}
    }
}

/// Trust material that a source delivers.
#[derive(Debug, Clone)]
pub struct TrustDelivery {
    /// Its version; `None` while a part of it is not available.
    pub version: Option<TrustVersion>,
    /// Digest of the document.
    pub digest: ContentDigest,
    /// The document, unparsed.
    pub document: Arc<FetchedConfig>,
}

/// Pinned image sets that a source delivers.
#[derive(Debug, Clone)]
pub struct PinDelivery {
    /// Digest of the document.
    pub digest: ContentDigest,
    /// The document, unparsed.
    pub document: Arc<FetchedConfig>,
    /// State of the sets before anything is known about the node.
    pub unpulled: PinState,
}

/// Failure to fetch a config.
#[derive(Debug)]
pub struct FetchFailure {
    pub problem: DaemonProblem,
    /// True if the source has no config of this name.
    pub is_missing: bool,
}

impl From<ClusterError> for FetchFailure {
    fn from(error: ClusterError) -> Self {
        Self { is_missing: matches!(error, ClusterError::NotFound(_)), problem: error.problem() }
    }
}

impl From<DaemonProblem> for FetchFailure {
    fn from(problem: DaemonProblem) -> Self {
        Self { problem, is_missing: false }
    }
}

/// Fetched config and policy, unparsed: the work process parses them.
#[derive(Default)]
pub struct FetchedConfig {
    /// MachineConfig or trust material, in JSON; `None` for the current config, which is on the disk.
    pub document: Option<MemoryFile>,
    /// MachineConfiguration with the node disruption policy; `None` for that of the host's settings.
    pub policy: Option<Vec<u8>>,
}

/// Shows the size only: a config may hold secrets.
impl std::fmt::Debug for FetchedConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchedConfig")
            .field("bytes", &self.document.as_ref().map(MemoryFile::length))
            .finish_non_exhaustive()
    }
}
