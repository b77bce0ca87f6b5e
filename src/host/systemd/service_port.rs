//! Port for actions on running services (daemon-reload, reload, restart), and their errors.

use std::fmt;
use std::time::Duration;

use crate::core::state::service_action::ServiceAction;

/// Service manager: systemd, or a fake in tests.
pub trait ServiceControl: fmt::Debug {
    /// Perform one action, and return when it has taken effect or failed. Blocks, but every implementation
    /// has a deadline.
    fn perform(&self, action: &ServiceAction) -> Result<(), ServiceError>;

    /// Return the `ExecStop=` command lines of a service; `None` if no service manager runs or it does not
    /// answer.
    fn stop_commands(&self, unit: &str) -> Option<Vec<Vec<String>>>;
}

/// Service manager of a tree that is not running: every action succeeds without effect.
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

/// Error text of another program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReportedError(pub String);

/// Result of a systemd job that neither succeeded nor failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobResult {
    /// Cancelled, or replaced by another job.
    Canceled,
    /// Exceeded the job timeout of its unit.
    TimedOut,
    /// A unit that it requires failed.
    Dependency,
    /// Any other result, by systemd's name.
    Other(String),
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Canceled => f.write_str("job was cancelled or replaced by another job"),
            Self::TimedOut => f.write_str("job exceeded the timeout of the unit"),
            Self::Dependency => f.write_str("a required unit failed"),
            Self::Other(word) => write!(f, "job ended with result `{word}`"),
        }
    }
}

/// Failure of an action on a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    #[error("{action}: no such unit; correct the node disruption policy that names it, or install it")]
    NotFound { action: ServiceAction },
    #[error("{action}: unit is masked; unmask it, or remove it from the node disruption policy")]
    Masked { action: ServiceAction },
    /// systemd cannot parse or load the unit's file.
    #[error("{action}: systemd cannot load the unit's file; see `systemctl status {}`", unit(action))]
    BadUnitFile {
        action: ServiceAction,
        /// Error text of systemd.
        #[source]
        source: ReportedError,
    },
    /// The unit has no `ExecReload=`.
    #[error(
        "{action}: unit cannot be reloaded without `ExecReload=`; let the node disruption policy restart it"
    )]
    NotReloadable { action: ServiceAction },
    #[error("{action}: unit failed{}; see `journalctl -u {}`", result_of(result.as_deref()), unit(action))]
    Failed {
        action: ServiceAction,
        /// The unit's `Result` property, such as `exit-code`; `None` for unit types without it.
        result: Option<String>,
    },
    /// systemd ended the job without performing it.
    #[error("{action}: {end}; see `journalctl -u {}`", unit(action))]
    JobEnded { action: ServiceAction, end: JobResult },
    /// The deadline passed. systemd continues the job: cancelling a restart could leave the unit stopped.
    #[error(
        "{action}: not done within {} seconds; systemd continues the job, see `systemctl list-jobs`",
        deadline.as_secs_f64()
    )]
    DeadlinePassed { action: ServiceAction, deadline: Duration },
    /// The caller may not control units.
    #[error("{action}: access denied; run flameholder as root")]
    AccessDenied {
        action: ServiceAction,
        /// Error text of the bus or systemd.
        #[source]
        source: ReportedError,
    },
    /// The bus or systemd cannot be reached, or the connection was lost. The action may have taken effect.
    #[error("{action}: systemd cannot be reached over D-Bus; see `systemctl status dbus`")]
    Unreachable {
        action: ServiceAction,
        #[source]
        source: ReportedError,
    },
    /// Any other error reply.
    #[error("{action}: systemd refused ({name})")]
    Refused {
        action: ServiceAction,
        /// D-Bus name of the error.
        name: String,
        #[source]
        source: ReportedError,
    },
}

fn unit(action: &ServiceAction) -> &str {
    // An action without a unit concerns systemd itself, which logs as `init.scope`.
    action.unit().map_or("init.scope", |unit| unit.as_str())
}

fn result_of(result: Option<&str>) -> String {
    result.map(|result| format!(" ({result})")).unwrap_or_default()
}
