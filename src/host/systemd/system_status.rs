//! What systemd says of itself and of units, asked over its private socket: whether the message bus runs may be one of
//! the questions.

use std::path::Path;
use std::time::Duration;

use zbus::zvariant::OwnedObjectPath;

use crate::host::systemd::pid1::{MANAGER, PROPERTIES, SOCKET};
use crate::host::systemd::private_socket::{PeerError, PrivateSocket, SocketReply};
use crate::host::systemd::service_port::ReportedError;

/// It does nothing but answer, yet it may be starting a lot at the time.
const ANSWER: Duration = Duration::from_secs(25);

/// There where systemd is the first process (`sd_booted(3)`).
const IS_SYSTEMD: &str = "run/systemd/system";

/// What makes a host a node.
pub const KUBELET: &str = "kubelet.service";

/// A unit as `ListUnits` has it: name, description, load state, active state, sub state, the unit followed, object,
/// job's number, job's type, job's object.
type Listed = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// How the host and some of its units are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemStatus {
    /// `starting`, `running`, `degraded`, `maintenance` and so on (systemctl(1), `is-system-running`).
    pub system: String,
    /// Units that were asked for.
    pub asked: Vec<UnitState>,
    /// Names of units that failed. None are told where systemd says that it is `running`.
    pub failed: Vec<String>,
    /// Names of units that systemd is about to start or stop. None are told then either.
    pub queued: Vec<String>,
    /// Whether the boot starts a kubelet.
    pub kubelet_is_enabled: bool,
}

/// How a unit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitState {
    /// Its name.
    pub name: String,
    /// `loaded`, `not-found`, `masked` and so on.
    pub load: String,
    /// `active`, `activating`, `inactive`, `failed` and so on.
    pub active: String,
}

/// Asks; `None` where no systemd runs.
pub fn look(root: &Path, names: &[&str]) -> Result<Option<SystemStatus>, ReportedError> {
    if !root.join(IS_SYSTEMD).is_dir() {
        return Ok(None);
    }
    ask(&root.join(SOCKET), names)
        .map(Some)
        .map_err(|error| ReportedError(format!("systemd does not answer: {error}")))
}

fn ask(socket: &Path, names: &[&str]) -> Result<SystemStatus, PeerError> {
    let mut systemd = PrivateSocket::connect(socket, ANSWER)?;
    let system = systemd.call(PROPERTIES, "Get", &(MANAGER, "SystemState")).and_then(SocketReply::variant)?;
    let listed = systemd.call(MANAGER, "ListUnitsByNames", &names)?.body::<Vec<Listed>>()?;
    let asked = listed.into_iter().map(|(name, _, load, active, ..)| UnitState { name, load, active });
    let asked = asked.collect();
    // Hundreds, for whoever asks every other second: only where somebody is to be named.
    let all = match system.as_str() {
        "running" => Vec::new(),
        _ => systemd.call(MANAGER, "ListUnits", &())?.body::<Vec<Listed>>()?,
    };
    let (mut failed, mut queued) = (Vec::new(), Vec::new());
    for (name, _, _, active, _, _, _, job, ..) in all {
        if job != 0 {
            queued.push(name);
        } else if active == "failed" {
            failed.push(name);
        }
    }
    // There may be no such unit.
    let enabled = systemd.call(MANAGER, "GetUnitFileState", &KUBELET).and_then(SocketReply::body::<String>);
    let kubelet_is_enabled = enabled.is_ok_and(|state| state.starts_with("enabled"));
    Ok(SystemStatus { system, asked, failed, queued, kubelet_is_enabled })
}
