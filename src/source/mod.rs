//! Where it is said what this host is to be. A source says what it wants whenever that changes, delivers
//! configurations, and is told where the daemon stands.

pub mod directory;
pub mod kube;

use crate::core::daemon::lifecycle::{ConfigRef, DaemonProblem, Lifecycle};

/// What the daemon asks of a source.
#[derive(Debug)]
pub enum SourceCommand {
    /// Let whoever watches know where the daemon stands; [`SourceEvent::Published`] answers once they do.
    Publish(Box<LifecycleView>),
    /// Deliver what is wanted; [`SourceEvent::Fetched`] answers.
    Fetch(ConfigRef),
}

/// Where the daemon stands, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleView {
    /// Later views have greater numbers.
    pub number: u64,
    /// The whole of it.
    pub lifecycle: Lifecycle,
}

/// What a source says.
#[derive(Debug)]
pub enum SourceEvent {
    /// This is wanted.
    DesiredChanged(ConfigRef),
    /// Whoever watches knows of the view with this number, and of all before it.
    Published(u64),
    /// What was ordered.
    Fetched(ConfigRef, Result<FetchedConfig, DaemonProblem>),
    /// The workload left.
    Drained(ConfigRef),
    /// The workload may be here again.
    Uncordoned,
    /// What is wrong with the source itself; `None` once nothing is.
    SourceError(Option<String>),
}

/// A configuration as it came, and what it depends on. Only bytes: what they say is decided by who applies them.
#[derive(Clone, Default)]
pub struct FetchedConfig {
    /// The `MachineConfig`.
    pub document: Vec<u8>,
    /// The `MachineConfiguration` whose policy says which changes interrupt what, where there is one.
    pub policy: Option<Vec<u8>>,
}

/// Its size only: it may hold secrets.
impl std::fmt::Debug for FetchedConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("bytes", &self.document.len()).finish_non_exhaustive()
    }
}
