//! Wait for libostree's lock on the running sysroot: rpm-ostree, bootc and ostree hold it while they work.

use std::path::Path;
use std::time::{Duration, Instant};

use super::OsError;
use super::protocol::SysrootAccess;
use super::worker::{WorkerProgram, WorkerSession};
use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;

/// Time to wait for the lock, unless [`VARIABLE`] or the settings set another.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Environment variable with that time in seconds; 0 waits not at all.
const VARIABLE: &str = "FLAMEHOLDER_LOCK_TIMEOUT";
/// Longest delay between two attempts. The lock announces no release.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Return the time to wait for the lock, by the environment, else by the settings.
#[must_use]
pub fn lock_timeout(of_settings: Option<Duration>) -> Duration {
    // A larger number of seconds would be no time that a clock can reach.
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<u32>().ok());
    let seconds = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    seconds.or(of_settings).unwrap_or(LOCK_TIMEOUT)
}

/// Open a session, and wait for up to `timeout` while another program holds the lock. Each holder is logged once.
///
/// # Errors
/// As for [`WorkerSession::open`]; [`OsError::Busy`] after the timeout.
pub fn open_when_unlocked(
    program: &WorkerProgram,
    sysroot: &Path,
    access: SysrootAccess,
    timeout: Duration,
) -> Result<WorkerSession, OsError> {
    let end = Instant::now() + timeout;
    let (mut attempts, mut logged) = (0, None);
    loop {
        match WorkerSession::open(program, sysroot, access) {
            Err(OsError::Busy { sysroot, holder }) if Instant::now() < end => {
                if attempts == 0 || (holder.is_some() && holder != logged) {
                    let held_by = holder.as_deref().unwrap_or("another program");
                    log::warn!("waiting for the lock of {}, held by {held_by}", sysroot.display());
                    logged.clone_from(&holder);
                }
                attempts += 1;
                let delay = RetryClass::Time.backoff(attempts, boot::jitter()) / 10;
                std::thread::sleep(delay.min(MAX_POLL_INTERVAL));
            }
            opened => return opened,
        }
    }
}
