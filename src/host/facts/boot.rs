//! Facts about the running system, independent of a root directory.

use std::path::Path;
use std::time::Duration;

use rustix::time::ClockId;

use crate::core::values::identifiers::{BootId, GenerationId};
use crate::host::facts::booted::BOOTED;

/// Return the ID of the boot after this number of soft reboots; empty if the kernel's cannot be read.
#[must_use]
pub fn boot_id(soft_reboots: u32) -> BootId {
    // A record without a boot ID is still valid: it only cannot tell reboots apart.
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BootId::of_kernel(text.trim(), soft_reboots)
}

/// Return true if `root` is `/` of a system that booted through OSTree.
#[must_use]
pub fn is_booted_ostree(root: &Path) -> bool {
    let is_top = root.canonicalize().is_ok_and(|path| path == Path::new("/"));
    is_top && Path::new(BOOTED).exists()
}

/// Return true if `root` is `/` of a system where systemd is running.
#[must_use]
pub fn is_running(root: &Path) -> bool {
    let is_top = root.canonicalize().is_ok_and(|path| path == Path::new("/"));
    is_top && Path::new("/run/systemd/system").is_dir()
}

/// Return true if the running kernel is in FIPS mode; `None` if it has no such mode.
#[must_use]
pub fn fips_mode() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/sys/crypto/fips_enabled").ok()?;
    Some(text.trim() == "1")
}

/// Return the days since 1970, as `shadow(5)` counts them. A clock before 1970 counts as day 0.
#[must_use]
pub fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / (24 * 60 * 60))
}

/// Return the time since the kernel started, including suspend. Unlike the wall clock it cannot be set.
#[must_use]
pub fn uptime() -> Duration {
    read_clock(ClockId::Boottime)
}

/// Return the time since the kernel started that the system was suspended.
#[must_use]
pub fn suspended() -> Duration {
    let awake = read_clock(ClockId::Monotonic);
    uptime().saturating_sub(awake)
}

fn read_clock(clock: ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// Return a random number from 0 to 1,000.
#[must_use]
pub fn jitter() -> u32 {
    let drawn = new_generation_id();
    u32::from_str_radix(drawn.as_str().get(..8).unwrap_or_default(), 16).unwrap_or(0) % 1001
}

/// Generate a generation ID: 128 random bits in hexadecimal.
#[must_use]
pub fn new_generation_id() -> GenerationId {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bits = [0_u8; 16];
    getrandom(&mut bits[..], GetRandomFlags::empty()).expect("getrandom fills 16 bytes in one call");
    bits.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// Return the current host name.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
