//! Who changes the operating system of the host that runs.

use std::path::Path;
use std::time::Duration;

use crate::os::rpm_ostree;
use crate::os::rpm_ostree::RpmOstreeDeadlines;
use crate::os::rpm_ostree::daemon::{RpmOstreeDaemon, RpmOstreeError};
use crate::os::{OsError, RedactedCause};

/// How long the bus may take to say what it knows.
const LOOK: Duration = Duration::from_secs(10);
/// What is mounted where.
const MOUNTS: &str = "/proc/self/mounts";
/// What the bootloader gave the kernel.
const COMMAND_LINE: &str = "/proc/cmdline";

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsBackend {
    /// libostree alone, through the worker. Packages stay as they are.
    Libostree,
    /// rpm-ostreed for images and packages, libostree for everything else.
    RpmOstree,
}

/// Where services say how the bus starts them.
const SERVICES: [&str; 2] = ["/usr/share/dbus-1/system-services", "/usr/local/share/dbus-1/system-services"];

/// Finds out who owns images and packages here: rpm-ostreed, where the message bus knows it, or would if it answered: a bus
/// that is late must not be why packages are left out.
#[must_use]
pub fn detect() -> OsBackend {
    let file = format!("{}.service", rpm_ostree::NAME);
    let is_installed = || SERVICES.iter().any(|directory| Path::new(directory).join(&file).exists());
    match is_rpm_ostreed_on_bus() {
        Ok(true) => OsBackend::RpmOstree,
        Ok(false) => OsBackend::Libostree,
        Err(_) if is_installed() => OsBackend::RpmOstree,
        Err(error) => {
            log::debug!("libostree is used alone: {error}");
            OsBackend::Libostree
        }
    }
}

fn is_rpm_ostreed_on_bus() -> Result<bool, RpmOstreeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| RpmOstreeError::Unreachable(RedactedCause::new(&error.to_string())))?;
    let deadlines = RpmOstreeDeadlines { answer: LOOK, ..RpmOstreeDeadlines::default() };
    runtime.block_on(async { RpmOstreeDaemon::connect(None, deadlines).await?.is_there().await })
}

/// Refuses a host whose `/etc` is gone with each boot: what is written there would be as well.
pub fn ensure_etc_persistent() -> Result<(), OsError> {
    // Nobody can look: what is there is not what this is about.
    let mounts = std::fs::read_to_string(MOUNTS).unwrap_or_default();
    if is_etc_transient(&mounts) {
        let reason = "its /etc is transient (`etc.transient` of ostree-prepare-root(1)) and starts anew from the image in each boot; build the configuration into the image, or make /etc persistent";
        return Err(OsError::Unsupported { reason: reason.to_owned() });
    }
    Ok(())
}

/// A transient one is overlaid with what ostree-prepare-root(1) keeps in memory. An overlay of other programs is not.
fn is_etc_transient(mounts: &str) -> bool {
    let mut of_etc = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next()? == "/etc").then(|| Some((words.next()?, words.next()?))).flatten()
    });
    of_etc.next_back().is_some_and(|(kind, options)| kind == "overlay" && options.contains("run/ostree"))
}

/// Why a host that has no deployment of OSTree cannot be served, where that is known.
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
    fn an_etc_that_does_not_stay_is_known_by_what_is_mounted_there() {
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
