//! The port through which running services take up a change, and what can go wrong there.

use std::fmt;
use std::time::Duration;

use crate::core::state::service_action::ServiceAction;

/// Whoever can make services take up a change: systemd on a host, something else in a test.
pub trait ServiceControl: fmt::Debug {
    /// Carries out one action and returns when it has taken effect, or has failed. It blocks, and
    /// it ends: every implementation has a deadline.
    fn perform(&self, action: &ServiceAction) -> Result<(), ServiceError>;

    /// The command lines that the service `unit` is stopped with; `None` where nobody can be asked.
    fn stop_commands(&self, unit: &str) -> Option<Vec<Vec<String>>>;
}

/// A tree on which nothing runs.
#[derive(Debug, Clone, Copy)]
pub struct NoServices;

impl ServiceControl for NoServices {
    fn perform(&self, _: &ServiceAction) -> Result<(), ServiceError> {
        Ok(())
    }

    fn stop_commands(&self, _: &str) -> Option<Vec<Vec<String>>> {
        None
    }
}

/// What somebody else said about a fault, as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReportedError(pub String);

/// How a job ended that neither succeeded nor failed by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobResult {
    /// It was cancelled, or another job took its place.
    Canceled,
    /// It ran into the time limit that its unit sets.
    TimedOut,
    /// A unit that it needs failed.
    Dependency,
    /// Something else, in systemd's own word.
    Other(String),
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Canceled => f.write_str("somebody cancelled it, or asked for something else of the unit"),
            Self::TimedOut => f.write_str("it took longer than the unit allows"),
            Self::Dependency => f.write_str("a unit that it needs failed"),
            Self::Other(word) => write!(f, "its job ended as `{word}`"),
        }
    }
}

/// Why an action did not take effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// There is no such unit.
    #[error("{action}: there is no such unit; correct the policy that names it, or install it")]
    NotFound {
        /// What was asked.
        action: ServiceAction,
    },
    /// The unit is masked.
    #[error("{action}: the unit is masked; unmask it, or take it out of the policy")]
    Masked {
        /// What was asked.
        action: ServiceAction,
    },
    /// systemd does not understand the unit's file.
    #[error("{action}: systemd cannot use the unit's file; see `systemctl status {}`", unit(action))]
    BadUnitFile {
        /// What was asked.
        action: ServiceAction,
        /// What systemd said.
        #[source]
        source: ReportedError,
    },
    /// The unit does not know how to reload.
    #[error("{action}: the unit cannot reload, it has no `ExecReload=`; let the policy restart it")]
    NotReloadable {
        /// What was asked.
        action: ServiceAction,
    },
    /// The unit failed.
    #[error("{action}: it failed{}; see `journalctl -u {}`", result_of(result.as_deref()), unit(action))]
    Failed {
        /// What was asked.
        action: ServiceAction,
        /// systemd's word for how, such as `exit-code`; none where it has none.
        result: Option<String>,
    },
    /// systemd gave the action up.
    #[error("{action}: {end}; see `journalctl -u {}`", unit(action))]
    JobEnded {
        /// What was asked.
        action: ServiceAction,
        /// How the job ended.
        end: JobResult,
    },
    /// It is not done in time. systemd is still at it: an abandoned restart would leave the unit
    /// stopped.
    #[error(
        "{action}: not done within {} seconds; systemd still works on it, see `systemctl list-jobs`",
        deadline.as_secs_f64()
    )]
    DeadlinePassed {
        /// What was asked.
        action: ServiceAction,
        /// How long was waited.
        deadline: Duration,
    },
    /// Whoever asked may not.
    #[error("{action}: access denied; run it as root")]
    AccessDenied {
        /// What was asked.
        action: ServiceAction,
        /// What the bus or systemd said.
        #[source]
        source: ReportedError,
    },
    /// The bus or systemd cannot be reached, or was lost on the way. The action may have happened.
    #[error("{action}: systemd cannot be reached over D-Bus; see whether the system bus runs")]
    Unreachable {
        /// What was asked.
        action: ServiceAction,
        /// What went wrong.
        #[source]
        source: ReportedError,
    },
    /// An error that has no variant of its own.
    #[error("{action}: systemd refused ({name})")]
    Refused {
        /// What was asked.
        action: ServiceAction,
        /// The error's D-Bus name.
        name: String,
        /// The error's text.
        #[source]
        source: ReportedError,
    },
}

fn unit(action: &ServiceAction) -> &str {
    // An action without a unit is about systemd itself, whose unit in the journal this is.
    action.unit().map_or("init.scope", |unit| unit.as_str())
}

fn result_of(result: Option<&str>) -> String {
    result.map(|result| format!(" ({result})")).unwrap_or_default()
}
