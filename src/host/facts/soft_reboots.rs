//! Soft reboots of the running system (`systemctl soft-reboot`). They restart all of user space, possibly on another
//! root file system, and keep the kernel with its boot ID and its command line; only systemd knows of them.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use zbus::zvariant::OwnedValue;

use crate::core::values::causes::chain;
use crate::core::values::identifiers::BootId;
use crate::host::facts::boot;
use crate::host::systemd::pid1::{MANAGER, PROPERTIES, SOCKET};
use crate::host::systemd::private_socket::{ANSWER, PeerError, PrivateSocket, SocketReply};

/// Soft reboots since the kernel started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoftReboots {
    pub count: u32,
    /// Uptime at the last of them; zero without one.
    pub last: Duration,
}

/// Return the ID of this boot of the running system; each soft reboot begins another one.
#[must_use]
pub fn this_boot() -> BootId {
    boot::boot_id(SoftReboots::observe(Path::new("/")).count)
}

impl SoftReboots {
    /// Ask the systemd whose runtime files are below `root`, which is `/` on a host. Without an answer there was none:
    /// systemd is not PID 1, or is older than version 256, which introduced the property `SoftRebootsCount`.
    #[must_use]
    pub fn observe(root: &Path) -> Self {
        // The socket exists from systemd's start on; elsewhere this costs one system call.
        match PrivateSocket::connect(&root.join(SOCKET), ANSWER).and_then(|mut systemd| ask(&mut systemd)) {
            Ok(found) => found,
            Err(PeerError::Answered { .. }) => Self::default(),
            Err(PeerError::Socket(error)) if is_absent(error.kind()) => Self::default(),
            Err(error) => {
                log::warn!(
                    "systemd does not tell the number of soft reboots, which is taken for 0: {error}",
                    error = chain(&error)
                );
                Self::default()
            }
        }
    }
}

/// Return true if systemd is not there, or does not talk to this user.
fn is_absent(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied)
}

fn ask(systemd: &mut PrivateSocket) -> Result<SoftReboots, PeerError> {
    let count = property::<u32>(systemd, "SoftRebootsCount")?;
    if count == 0 {
        return Ok(SoftReboots::default());
    }
    // Of the monotonic clock, which stands still during suspend. Without it the time counts from here: a boot check
    // that comes late is better than one that is over at once.
    let last = match property::<u64>(systemd, "UserspaceTimestampMonotonic") {
        Ok(microseconds) => Duration::from_micros(microseconds) + boot::suspended(),
        Err(_) => boot::uptime(),
    };
    Ok(SoftReboots { count, last })
}

fn property<T>(systemd: &mut PrivateSocket, name: &str) -> Result<T, PeerError>
where
    T: TryFrom<OwnedValue>,
    T::Error: std::fmt::Display,
{
    systemd.call(PROPERTIES, "Get", &(MANAGER, name)).and_then(SocketReply::variant)
}
