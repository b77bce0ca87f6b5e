//! Status of systemd and of units, read over systemd's private socket: this works without the message bus,
//! whose own status may be asked for.

use std::path::{Path, PathBuf};

use zbus::zvariant::OwnedObjectPath;

use crate::host::systemd::pid1::{MANAGER, PROPERTIES, SOCKET};
use crate::host::systemd::private_socket::{ANSWER, PeerError, PrivateSocket, SocketReply};
use crate::host::systemd::service_port::ReportedError;

/// Exists if systemd is PID 1 (`sd_booted(3)`).
const IS_SYSTEMD: &str = "run/systemd/system";

/// Unit whose enablement makes the host a Kubernetes node.
pub const KUBELET: &str = "kubelet.service";

/// Element of `ListUnits`: name, description, load state, active state, sub state, followed unit, object
/// path, job number, job type, job path.
type Listed = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// State of systemd and of some units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemStatus {
    /// `SystemState`: `starting`, `running`, `degraded`, `maintenance` and so on, as of `systemctl
    /// is-system-running`.
    pub system: String,
    /// Requested units.
    pub asked: Vec<UnitState>,
    /// Names of failed units. Empty if the system state is `running`.
    pub failed: Vec<String>,
    /// Names of units with a queued job. Empty if the system state is `running`.
    pub queued: Vec<String>,
    /// True if the boot starts the kubelet.
    pub kubelet_is_enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitState {
    pub name: String,
    /// `LoadState`: `loaded`, `not-found`, `masked` and so on.
    pub load: String,
    /// `ActiveState`: `active`, `activating`, `inactive`, `failed` and so on.
    pub active: String,
}

/// Return the path of systemd's private socket; `None` if systemd is not PID 1.
#[must_use]
pub fn socket(root: &Path) -> Option<PathBuf> {
    root.join(IS_SYSTEMD).is_dir().then(|| root.join(SOCKET))
}

/// Read the status; `None` if systemd is not PID 1.
pub fn look(root: &Path, names: &[&str]) -> Result<Option<SystemStatus>, ReportedError> {
    let Some(socket) = socket(root) else { return Ok(None) };
    ask(&socket, names).map(Some).map_err(|error| ReportedError(format!("systemd does not answer: {error}")))
}

/// Return true if the boot starts the kubelet; false if systemd is not PID 1.
pub fn kubelet_is_enabled(root: &Path) -> Result<bool, ReportedError> {
    let Some(socket) = socket(root) else { return Ok(false) };
    PrivateSocket::connect(&socket, ANSWER)
        .map(|mut systemd| is_enabled(&mut systemd, KUBELET))
        .map_err(|error| ReportedError(format!("systemd does not answer: {error}")))
}

fn is_enabled(systemd: &mut PrivateSocket, unit: &str) -> bool {
    // The unit may not exist.
    let state = systemd.call(MANAGER, "GetUnitFileState", &unit).and_then(SocketReply::body::<String>);
    state.is_ok_and(|state| state.starts_with("enabled"))
}

fn ask(socket: &Path, names: &[&str]) -> Result<SystemStatus, PeerError> {
    let mut systemd = PrivateSocket::connect(socket, ANSWER)?;
    let system: String =
        systemd.call(PROPERTIES, "Get", &(MANAGER, "SystemState")).and_then(SocketReply::variant)?;
    let listed = systemd.call(MANAGER, "ListUnitsByNames", &names)?.body::<Vec<Listed>>()?;
    let asked = listed.into_iter().map(|(name, _, load, active, ..)| UnitState { name, load, active });
    let asked = asked.collect();
    // The list has hundreds of units and callers poll every other second, so it is read only if failed or
    // queued units exist.
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
    let kubelet_is_enabled = is_enabled(&mut systemd, KUBELET);
    Ok(SystemStatus { system, asked, failed, queued, kubelet_is_enabled })
}
