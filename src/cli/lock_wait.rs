//! Option to wait for locks: of the agent's other commands and jobs, and of programs that use the sysroot.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;

use crate::cli::CliError;
use crate::cli::output::terminal::note;
use crate::cli::output::words::parse_duration;
use crate::host::fs::lock::HostLock;
use crate::host::{LockedHost, RunningHost};
use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;
use crate::transaction::{SysrootOpener, TransactionError};

/// Interval of attempts: neither lock tells when it is released.
const PACE: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LockWaitArgs {
    /// Wait for the lock if another command, the daemon or another program holds it, for ten minutes or as long as given
    ///
    /// Without this option a lock of the agent itself is exit code 75 at once; `apply` waits for that of libostree nevertheless, as
    /// long as the setting `limits.lock-timeout` says.
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10m",
        value_parser = parse_duration
    )]
    wait_lock: Option<Duration>,
}

impl LockWaitArgs {
    /// Open a session that stages on the running host, and take the host's lock.
    ///
    /// A wait for the host's lock keeps no session open: the holder may need the sysroot, whose lock a session has.
    pub(crate) fn stage_on<'a>(
        self,
        host: &'a RunningHost,
        open: SysrootOpener<'_>,
    ) -> Result<(Box<dyn Sysroot>, LockedHost<'a>), CliError> {
        self.wait_for(|| {
            HostLock::ensure_free(&host.root)?;
            let session = open(SysrootAccess::Stage)?;
            Ok::<_, TransactionError>((session, host.lock()?))
        })
    }

    /// Call `attempt` until its lock is free, or the time is over.
    pub(crate) fn wait_for<T, E: Into<TransactionError>>(
        self,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, CliError> {
        let began = Instant::now();
        let mut is_told = false;
        loop {
            let error: TransactionError = match attempt() {
                Ok(taken) => return Ok(taken),
                Err(error) => error.into(),
            };
            if !error.is_busy() || self.wait_lock.is_none_or(|wait| began.elapsed() >= wait) {
                return Err(error.into());
            }
            if !is_told {
                note(&format!("waiting: {}", error.chain()));
                is_told = true;
            }
            sleep(PACE);
        }
    }
}
