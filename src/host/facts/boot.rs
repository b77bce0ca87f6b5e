//! Facts about the running system, not about a root.

use std::path::Path;

use crate::host::facts::booted::BOOTED;

/// The ID of this boot, as the kernel draws it; empty where the kernel tells none.
#[must_use]
pub fn boot_id() -> String {
    // A record without it is still a record: it only cannot tell reboots apart.
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Whether `root` is the root directory of a system that booted through OSTree.
#[must_use]
pub fn is_booted_ostree(root: &Path) -> bool {
    let is_top = root.canonicalize().is_ok_and(|path| path == Path::new("/"));
    is_top && Path::new(BOOTED).exists()
}

/// Whether `root` is the root directory of a system that runs systemd.
#[must_use]
pub fn is_running(root: &Path) -> bool {
    let is_top = root.canonicalize().is_ok_and(|path| path == Path::new("/"));
    is_top && Path::new("/run/systemd/system").is_dir()
}

/// Whether the kernel that runs is in FIPS mode.
#[must_use]
pub fn is_in_fips_mode() -> bool {
    std::fs::read_to_string("/proc/sys/crypto/fips_enabled").is_ok_and(|text| text.trim() == "1")
}

/// Days since 1970, as `shadow(5)` counts. A clock before that counts as day 0.
#[must_use]
pub fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / (24 * 60 * 60))
}

/// How long ago the kernel started, suspended or not. Nobody can set this clock.
#[must_use]
pub fn uptime() -> std::time::Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    std::time::Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// A number from 0 to 1,000, as chance has it.
#[must_use]
pub fn chance() -> u32 {
    let drawn = new_generation_id();
    u32::from_str_radix(drawn.get(..8).unwrap_or_default(), 16).unwrap_or(0) % 1001
}

/// 128 random bits in hex: the name of a generation.
#[must_use]
pub fn new_generation_id() -> String {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bits = [0_u8; 16];
    getrandom(&mut bits[..], GetRandomFlags::empty()).expect("16 bytes come at once once the pool is ready");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that the host has now.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
