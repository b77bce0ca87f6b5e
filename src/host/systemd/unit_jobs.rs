//! Actions on services (daemon-reload, reload, restart) through systemd jobs, over the system bus.

use std::time::Duration;

use crate::core::enablement::UnitName;
use crate::core::state::service_action::ServiceAction;
use crate::core::values::causes::chain;
use crate::host::systemd::service_port::{JobResult, ReportedError, ServiceControl, ServiceError};
use crate::host::systemd::system_bus::{BusError, SystemBus};

/// Deadline for the bus: the default timeout of D-Bus libraries.
const BUS: Duration = Duration::from_secs(25);
/// Deadline for daemon-reload: the time that systemd gives its generators.
const DAEMON_RELOAD: Duration = Duration::from_secs(90);
/// Deadline for a reload: systemd's default timeout of 90 seconds, plus time for jobs queued before.
const RELOAD: Duration = Duration::from_secs(120);
/// Deadline for a restart: systemd's default timeouts are 90 seconds to stop, 90 more after SIGKILL, and 90
/// to start. A unit with longer timeouts must not block the host for ever.
const RESTART: Duration = Duration::from_secs(300);

/// Deadlines of calls and actions.
#[derive(Debug, Clone, Copy)]
pub struct ServiceDeadlines {
    /// Connecting to the bus and finding systemd.
    pub bus: Duration,
    pub daemon_reload: Duration,
    pub reload: Duration,
    pub restart: Duration,
}

impl Default for ServiceDeadlines {
    fn default() -> Self {
        Self { bus: BUS, daemon_reload: DAEMON_RELOAD, reload: RELOAD, restart: RESTART }
    }
}

impl ServiceDeadlines {
    fn of(&self, action: &ServiceAction) -> Duration {
        match action {
            ServiceAction::DaemonReload => self.daemon_reload,
            ServiceAction::Reload { .. } => self.reload,
            ServiceAction::Restart { .. } => self.restart,
        }
    }
}

/// systemd, reached through a message bus.
///
/// Each action opens its own connection: a bus restarted in between, possibly by an action, does not make the
/// next one fail, and an idle process keeps no connection open.
///
/// # Flow
/// An action on a unit queues a job in mode `replace`, as systemctl does, and waits for the job's end. Then
/// the unit must not be failed: the job of a service that dies right after its start has succeeded.
///
/// # Differences from `systemctl` and the MCD
/// Reloading an inactive unit is no error: no process has read the old configuration. The MCD fails there and
/// rolls the whole change back. A *failed* unit is an error in both. As with systemctl, a restart that is
/// skipped because of the unit's conditions is a success.
///
/// # Limits
/// The methods block their thread and drive a tokio runtime on it: asynchronous code must call them with
/// `spawn_blocking`.
#[derive(Debug, Clone, Default)]
pub struct SystemdServices {
    address: Option<String>,
    deadlines: ServiceDeadlines,
}

impl SystemdServices {
    /// Use the system bus: `DBUS_SYSTEM_BUS_ADDRESS` or the default socket.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// Use the bus at `address`, in the notation of the D-Bus specification.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self { address: Some(address.to_owned()), deadlines: ServiceDeadlines::default() }
    }

    #[must_use]
    pub fn with_deadlines(self, deadlines: ServiceDeadlines) -> Self {
        Self { deadlines, ..self }
    }

    /// Start a unit whose start failed with that of a unit that it requires: if it is not active, and no job of it is queued. Does
    /// not wait for it. Returns true if it is started.
    pub fn start_left_behind(&self, unit: &str) -> Result<bool, ReportedError> {
        self.ask(async |bus| bus.start_left_behind(unit).await)
    }

    /// Connect, and ask systemd within the deadline for the bus.
    fn ask<T>(
        &self,
        question: impl AsyncFnOnce(SystemBus) -> Result<T, BusError>,
    ) -> Result<T, ReportedError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ReportedError(error.to_string()))?;
        let asked = runtime.block_on(async {
            let asked = async { question(SystemBus::connect(self.address.as_deref()).await?).await };
            tokio::time::timeout(self.deadlines.bus, asked).await
        });
        let seconds = self.deadlines.bus.as_secs();
        let silent = |_| ReportedError(format!("systemd did not answer within {seconds} seconds"));
        asked.map_err(silent)?.map_err(|error| ReportedError(chain(&error)))
    }

    async fn carry_out(&self, action: &ServiceAction) -> Result<(), ServiceError> {
        let connected = SystemBus::connect(self.address.as_deref());
        let silent = format!("no answer within {} seconds", self.deadlines.bus.as_secs_f64());
        let connected = tokio::time::timeout(self.deadlines.bus, connected).await;
        let bus = connected
            .map_err(|_| unreachable_because(action, silent))?
            .map_err(|error| explained(action, error))?;
        let deadline = self.deadlines.of(action);
        let asked = async {
            match action {
                ServiceAction::DaemonReload => {
                    bus.ask("Reload").await.map_err(|error| explained(action, error))
                }
                ServiceAction::Reload { unit } => on_unit(&bus, action, unit, "ReloadUnit").await,
                ServiceAction::Restart { unit } => on_unit(&bus, action, unit, "RestartUnit").await,
            }
        };
        let late = ServiceError::DeadlinePassed { action: action.clone(), deadline };
        tokio::time::timeout(deadline, asked).await.unwrap_or(Err(late))
    }
}

impl ServiceControl for SystemdServices {
    fn perform(&self, action: &ServiceAction) -> Result<(), ServiceError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable_because(action, error.to_string()))?;
        runtime.block_on(self.carry_out(action))
    }

    fn stop_commands(&self, unit: &str) -> Option<Vec<Vec<String>>> {
        let asked = self.ask(async |bus| bus.stop_commands(unit).await);
        asked.inspect_err(|reason| log::warn!("cannot read ExecStop= of {unit}: {reason}")).ok()
    }
}

async fn on_unit(
    bus: &SystemBus,
    action: &ServiceAction,
    unit: &UnitName,
    method: &str,
) -> Result<(), ServiceError> {
    let explain = |error| explained(action, error);
    let unit = unit.as_str();
    let result = bus.job(method, unit).await.map_err(explain)?;
    let end = match result.as_str() {
        "done" | "skipped" => None,
        "failed" => return Err(failed(bus, action, unit).await),
        "canceled" => Some(JobResult::Canceled),
        "timeout" => Some(JobResult::TimedOut),
        "dependency" => Some(JobResult::Dependency),
        _ => Some(JobResult::Other(result.clone())),
    };
    let state = bus.state(unit).await.map_err(explain)?;
    // In `auto-restart` the service is dead, and systemd waits before it starts it again.
    if state.active == "failed" || state.sub == "auto-restart" {
        return Err(failed(bus, action, unit).await);
    }
    // Result of reloading an inactive unit.
    let is_moot = result == "invalid"
        && matches!(action, ServiceAction::Reload { .. })
        && ["inactive", "deactivating"].contains(&state.active.as_str());
    match end {
        Some(end) if !is_moot => Err(ServiceError::JobEnded { action: action.clone(), end }),
        _ => Ok(()),
    }
}

async fn failed(bus: &SystemBus, action: &ServiceAction, unit: &str) -> ServiceError {
    let mut words = Vec::new();
    // Unit types without `Result` fail here; the failure is reported without it.
    words.extend(bus.of_type(unit, "Result").await.ok());
    if matches!(action, ServiceAction::Reload { .. }) {
        words.extend(bus.of_type(unit, "ReloadResult").await.ok());
    }
    let result = words.into_iter().find(|word| word != "success");
    ServiceError::Failed { action: action.clone(), result }
}

fn explained(action: &ServiceAction, error: BusError) -> ServiceError {
    match error {
        BusError::DBus(zbus::Error::MethodError(name, text, _)) => {
            refused(action, name.as_str(), text.unwrap_or_default())
        }
        BusError::DBus(zbus::Error::Connection(error, _))
            if error.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            ServiceError::AccessDenied { action: action.clone(), source: ReportedError(error.to_string()) }
        }
        BusError::DBus(error) => unreachable_because(action, error.to_string()),
        BusError::ConnectionClosed => unreachable_because(action, "the bus closed the connection".to_owned()),
        BusError::NameLost => unreachable_because(action, "systemd left the bus".to_owned()),
    }
}

/// Convert by the error names of org.freedesktop.systemd1(5) and of the D-Bus specification.
fn refused(action: &ServiceAction, name: &str, text: String) -> ServiceError {
    let (action, source) = (action.clone(), ReportedError(text));
    let of_systemd = name.strip_prefix("org.freedesktop.systemd1.");
    let of_bus = name.strip_prefix("org.freedesktop.DBus.Error.");
    match of_systemd.or(of_bus).unwrap_or_default() {
        "NoSuchUnit" => ServiceError::NotFound { action },
        "UnitMasked" => ServiceError::Masked { action },
        "LoadFailed" | "BadUnitSetting" => ServiceError::BadUnitFile { action, source },
        "JobTypeNotApplicable" if matches!(action, ServiceAction::Reload { .. }) => {
            ServiceError::NotReloadable { action }
        }
        "AccessDenied" | "AuthFailed" | "InteractiveAuthorizationRequired" => {
            ServiceError::AccessDenied { action, source }
        }
        // systemd is not on the bus, or left it during the call.
        "NameHasNoOwner" | "ServiceUnknown" | "NoReply" | "Disconnected" => {
            ServiceError::Unreachable { action, source }
        }
        _ => ServiceError::Refused { action, name: name.to_owned(), source },
    }
}

fn unreachable_because(action: &ServiceAction, text: String) -> ServiceError {
    ServiceError::Unreachable { action: action.clone(), source: ReportedError(text) }
}
