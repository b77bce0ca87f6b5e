//! systemd as the one who makes services take up a change, asked over the system bus.

use std::time::Duration;

use crate::core::enablement::UnitName;
use crate::core::state::service_action::ServiceAction;
use crate::host::systemd::service_port::{JobResult, ReportedError, ServiceControl, ServiceError};
use crate::host::systemd::system_bus::{BusError, SystemBus};

/// For the bus itself, which only passes messages on: as long as D-Bus libraries wait for a reply.
const BUS: Duration = Duration::from_secs(25);
/// For rereading the unit files: systemd gives the generators, which it waits for, that long.
const DAEMON_RELOAD: Duration = Duration::from_secs(90);
/// For a reload: systemd ends one after 90 seconds by default; the rest is for what is queued before.
const RELOAD: Duration = Duration::from_secs(120);
/// For a restart: by default systemd gives a unit 90 seconds to stop, 90 more after SIGKILL and 90
/// to start. A unit that allows itself more is not worth a host that waits for ever.
const RESTART: Duration = Duration::from_secs(300);

/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
pub struct ServiceDeadlines {
    /// Until the bus answers and knows systemd.
    pub bus: Duration,
    /// Until all unit files are reread.
    pub daemon_reload: Duration,
    /// Until a unit has reloaded.
    pub reload: Duration,
    /// Until a unit has restarted.
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

/// systemd, by the address of the bus that it is on.
///
/// Each action has a connection of its own, so that a bus that was restarted in between, by an
/// action perhaps, is no fault of the next one, and a process that idles keeps nothing open.
///
/// # Flow
/// An action on a unit queues a job, with the mode `replace` that systemctl has too, and waits for
/// the end of that job. Then the unit must not have failed: a service that dies right after its
/// start has a job that succeeded.
///
/// # What differs from `systemctl`
/// To reload a unit that does not run is no error: there is nobody who has read the old
/// configuration. The reference's agent fails there and takes the whole change back. A unit that
/// *failed* is an error in both. As in systemctl, a restart that the unit's own conditions skip is
/// a success.
///
/// # Limits
/// It blocks its thread and drives a runtime of its own there: asynchronous code has to call it on
/// a thread for blocking work.
#[derive(Debug, Clone, Default)]
pub struct SystemdServices {
    address: Option<String>,
    deadlines: ServiceDeadlines,
}

impl SystemdServices {
    /// The host's own, on the system bus: `DBUS_SYSTEM_BUS_ADDRESS`, or the bus's usual socket.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// The one that is on the bus at `address`, spelt as the D-Bus specification says.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self { address: Some(address.to_owned()), deadlines: ServiceDeadlines::default() }
    }

    /// The same with other deadlines.
    #[must_use]
    pub fn with_deadlines(self, deadlines: ServiceDeadlines) -> Self {
        Self { deadlines, ..self }
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let asked = runtime.block_on(async {
            let asked =
                async { SystemBus::connect(self.address.as_deref()).await?.stop_commands(unit).await };
            tokio::time::timeout(self.deadlines.bus, asked).await
        });
        match asked {
            Ok(Ok(commands)) => Some(commands),
            failed => {
                log::warn!("systemd does not say how {unit} is stopped: {failed:?}");
                None
            }
        }
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
    // `auto-restart`: it is dead, and systemd waits before it tries again.
    if state.active == "failed" || state.sub == "auto-restart" {
        return Err(failed(bus, action, unit).await);
    }
    // What systemd calls the reload of a unit that does not run.
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
    // Targets and the like have no word for it, and the failure itself is known without one.
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

/// By the names of org.freedesktop.systemd1(5) and of the D-Bus specification.
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
        // systemd is not on the bus, or left it with the call.
        "NameHasNoOwner" | "ServiceUnknown" | "NoReply" | "Disconnected" => {
            ServiceError::Unreachable { action, source }
        }
        _ => ServiceError::Refused { action, name: name.to_owned(), source },
    }
}

fn unreachable_because(action: &ServiceAction, text: String) -> ServiceError {
    ServiceError::Unreachable { action: action.clone(), source: ReportedError(text) }
}
