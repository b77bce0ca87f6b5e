//! Stand-in for rpm-ostreed on machines without it: owns the daemon's name on a bus, speaks its protocol,
//! oddities included, and makes real deployments in the booted sysroot.
//!
//! RPM is not implemented: a package is a file of its name in a directory that a `.repo` file points to, and
//! layering adds that file to the commit.
//!
//! [`Faults`] are read from a file at each call, so that a test can turn a fault on and off.

mod active;
mod daemon;
mod deployments;
mod error;
mod experimental;
mod faults;
mod kargs;
mod layering;
mod options;
mod packages;
mod pull;
mod stateroot;
mod sysroot;
mod transaction;
mod update;
mod work;

use std::path::PathBuf;
use std::time::Duration;

pub use faults::{Die, Faults};

/// Name of the daemon on the bus.
pub const NAME: &str = "org.projectatomic.rpmostree1";
/// Prefix of the object paths.
pub const TOP: &str = "/org/projectatomic/rpmostree1";

/// Command line of the stand-in.
#[derive(Debug, Clone, clap::Parser)]
pub struct Options {
    /// Socket of transactions
    #[arg(long, default_value = "/run/rpm-ostree-transaction.sock")]
    pub socket: PathBuf,
    /// Address of transactions that is sent to clients, if it differs from the socket
    #[arg(long)]
    pub announce: Option<PathBuf>,
    /// File with faults, read at each call
    #[arg(long, default_value = "/run/rpm-ostreed-faults.json")]
    pub faults: PathBuf,
    /// Exit after this time without a client and a transaction, in milliseconds; 0 for never
    #[arg(long, default_value_t = 60_000)]
    pub idle: u64,
}

impl Options {
    fn idle(&self) -> Option<Duration> {
        (self.idle > 0).then(|| Duration::from_millis(self.idle))
    }
}

/// Serve until the daemon has been idle for long enough.
///
/// # Errors
///
/// The bus cannot be reached, or the name is taken.
pub fn serve(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(daemon::serve(options));
    // Threads of unfinished transactions end with the process.
    runtime.shutdown_background();
    served
}
