//! Problem classes of failed attempts: configuration, transient, host, drift or bug. The class decides the backoff
//! (retry class) and the time of the report to the cluster.

use serde::{Deserialize, Serialize};

use crate::core::values::backoff::RetryClass;

/// Failure of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonProblem {
    pub class: ProblemClass,
    /// Error and remedy, in one sentence.
    pub reason: String,
}

/// Class of a problem, by the party that can solve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemClass {
    /// The configuration cannot be applied to this host; its author must change it.
    Configuration,
    /// The problem passes with time, such as a network outage.
    Transient,
    /// An administrator must repair the host.
    Host,
    /// An administrator must restore drifted files, or force the update.
    Drift,
    /// A bug in Flameholder.
    Bug,
    /// The attempt was cancelled on request.
    Interrupted,
}

/// Failure to apply trust material, or to restart the kubelet with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustFailure {
    pub problem: DaemonProblem,
    /// Number of failed attempts in a row.
    pub failures: u32,
    /// True if the trust material is applied, and the kubelet could not be restarted.
    pub is_of_restart: bool,
}

impl TrustFailure {
    /// Return true if this failure is reported to the cluster.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.problem.class.is_reported_after(self.failures)
    }
}

/// Failures in a row after which a transient problem is reported to the cluster.
const REPORT_AFTER_FAILURES: u32 = 6;

impl ProblemClass {
    /// Return the retry class: the kind of change that another attempt needs to succeed.
    #[must_use]
    pub fn retry_class(self) -> RetryClass {
        match self {
            Self::Configuration => RetryClass::Configuration,
            Self::Transient | Self::Interrupted => RetryClass::Time,
            Self::Host | Self::Drift | Self::Bug => RetryClass::Repair,
        }
    }

    /// Return true if this problem is reported to the cluster after `failures` failures in a row. A transient
    /// one is reported late, all others at once.
    #[must_use]
    pub fn is_reported_after(self, failures: u32) -> bool {
        self.retry_class() != RetryClass::Time || failures >= REPORT_AFTER_FAILURES
    }

    /// Return the class of this spelling.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        const ALL: [ProblemClass; 6] = [
            ProblemClass::Configuration,
            ProblemClass::Transient,
            ProblemClass::Host,
            ProblemClass::Drift,
            ProblemClass::Bug,
            ProblemClass::Interrupted,
        ];
        ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// Return the spelling used in metrics labels and documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Transient => "transient",
            Self::Host => "host",
            Self::Drift => "drift",
            Self::Bug => "bug",
            Self::Interrupted => "interrupted",
        }
    }
}
