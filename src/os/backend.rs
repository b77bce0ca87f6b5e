//! Choice of the backend (libostree or rpm-ostreed), and kinds of host that cannot be updated.

use std::path::Path;
use std::time::Duration;

use crate::os::rpm_ostree::RpmOstreeDeadlines;
use crate::os::rpm_ostree::daemon::{RpmOstreeDaemon, RpmOstreeError};
use crate::os::{OsError, RedactedCause, rpm_ostree};

/// Deadline for the message bus to say if rpm-ostreed exists.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
const MOUNTS: &str = "/proc/self/mounts";
const COMMAND_LINE: &str = "/proc/cmdline";

/// Program that changes deployments of the running host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsBackend {
    /// libostree alone, through the worker. Layered packages stay unchanged.
    Libostree,
    /// rpm-ostreed for images and packages, libostree for everything else.
    RpmOstree,
}

/// Directories of D-Bus service files, which make a service activatable.
const SERVICES: [&str; 2] = ["/usr/share/dbus-1/system-services", "/usr/local/share/dbus-1/system-services"];

/// Choose rpm-ostreed if it is running or D-Bus can activate it, else libostree.
///
/// If the bus does not answer in time, an installed D-Bus service file decides: choosing libostree because
/// of a slow bus would drop layered packages from the update.
#[must_use]
pub fn detect() -> OsBackend {
    let file = format!("{}.service", rpm_ostree::NAME);
    let is_installed = || SERVICES.iter().any(|directory| Path::new(directory).join(&file).exists());
    match is_rpm_ostreed_on_bus() {
        Ok(true) => OsBackend::RpmOstree,
        Ok(false) => OsBackend::Libostree,
        Err(_) if is_installed() => OsBackend::RpmOstree,
        Err(error) => {
            log::debug!("rpm-ostreed is not reachable, using libostree: {error}");
            OsBackend::Libostree
        }
    }
}

fn is_rpm_ostreed_on_bus() -> Result<bool, RpmOstreeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| RpmOstreeError::Unreachable(RedactedCause::new(&error.to_string())))?;
    let deadlines = RpmOstreeDeadlines { answer: PROBE_TIMEOUT, ..RpmOstreeDeadlines::default() };
    runtime.block_on(async { RpmOstreeDaemon::connect(None, deadlines).await?.is_available().await })
}

/// Refuse a host with a transient `/etc`: each boot would discard the configuration written there.
pub fn ensure_etc_persistent() -> Result<(), OsError> {
    // An unreadable mount table is no reason to refuse: it does not show that `/etc` is transient.
    let mounts = std::fs::read_to_string(MOUNTS).unwrap_or_default();
    if is_etc_transient(&mounts) {
        let reason = "its /etc is transient (`etc.transient` of ostree-prepare-root(1)) and reset to the image at each boot; build the configuration into the image, or make /etc persistent";
        return Err(OsError::Unsupported { reason: reason.to_owned() });
    }
    Ok(())
}

/// ostree-prepare-root(1) makes `/etc` transient with an overlay below `/run/ostree`. Overlays of other
/// programs (systemd-confext) do not make it transient.
fn is_etc_transient(mounts: &str) -> bool {
    let mut of_etc = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next()? == "/etc").then(|| Some((words.next()?, words.next()?))).flatten()
    });
    of_etc.next_back().is_some_and(|(kind, options)| kind == "overlay" && options.contains("run/ostree"))
}

/// Explain why a host without an OSTree deployment cannot be updated. `None` if no cause is known.
#[must_use]
pub fn unsupported_reason() -> Option<String> {
    let line = std::fs::read_to_string(COMMAND_LINE).ok()?;
    let is_native = line.split_whitespace().any(|argument| argument.starts_with("composefs="));
    let is_image = is_native && !Path::new("/run/ostree-booted").exists();
    is_image.then(|| {
        "this host was booted by bootc from a composefs image without OSTree, which flameholder cannot change yet"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_etc_is_recognized_by_its_overlay_mount() {
        let root = "/dev/vda4 / xfs ro 0 0\n";
        for (etc, expected) in [
            ("/dev/vda4 /etc xfs rw,relatime 0 0\n", false),
            ("overlay /etc overlay rw,upperdir=/run/ostree/transient-etc/upper 0 0\n", true),
            ("tmpfs /etc tmpfs rw 0 0\n", false),
            ("overlay /etc overlay ro,lowerdir=/run/systemd/confext 0 0\n", false),
            ("overlay /etc/x overlay rw 0 0\n", false),
            ("", false),
        ] {
            assert_eq!(is_etc_transient(&format!("{root}{etc}")), expected, "{etc}");
        }
    }
}
