//! Why an attempt failed, by who has to do something about it.

use serde::{Deserialize, Serialize};

use crate::core::values::backoff::RetryClass;

/// What failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonProblem {
    /// Who has to do something about it.
    pub class: ProblemClass,
    /// What is wrong and the way out, in one sentence.
    pub reason: String,
}

/// Who has to do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemClass {
    /// Whoever wrote the configuration: it cannot be applied here.
    Configuration,
    /// Nobody: it passes.
    Transient,
    /// Whoever looks after the host.
    Host,
    /// Whoever writes this program.
    Bug,
    /// Nobody: it was ended early, because it was asked for.
    Interrupted,
}

/// So many failures in a row do not pass by themselves.
const PATIENCE: u32 = 6;

impl ProblemClass {
    /// What has to change before another attempt can succeed.
    #[must_use]
    pub fn cure(self) -> RetryClass {
        match self {
            Self::Configuration => RetryClass::Configuration,
            Self::Transient | Self::Interrupted => RetryClass::Time,
            Self::Host | Self::Bug => RetryClass::Repair,
        }
    }

    /// Whether people are told, after so many failures in a row.
    #[must_use]
    pub fn is_told_after(self, failures: u32) -> bool {
        self.cure() != RetryClass::Time || failures >= PATIENCE
    }

    /// As labels and documents spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Transient => "transient",
            Self::Host => "host",
            Self::Bug => "bug",
            Self::Interrupted => "interrupted",
        }
    }
}
