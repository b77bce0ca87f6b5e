//! Stands in for rpm-ostreed where that cannot be had: it owns the daemon's name on a bus, speaks its protocol, oddities
//! included, and makes real deployments in the sysroot that runs.
//!
//! What is not behind it: rpm. A package is a file of its name in a directory that a `.repo` file points to, and layering it
//! puts that file into the commit.
//!
//! [`Faults`] are read from a file at each call, so that a test can make it fail in a certain way and then not.

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

/// The name that it owns.
pub const NAME: &str = "org.projectatomic.rpmostree1";
/// Where its objects begin.
pub const TOP: &str = "/org/projectatomic/rpmostree1";

/// How it is started.
#[derive(Debug, Clone, clap::Parser)]
pub struct Options {
    /// Where transactions are found
    #[arg(long, default_value = "/run/rpm-ostree-transaction.sock")]
    pub socket: PathBuf,
    /// What it says where that is, if not so
    #[arg(long)]
    pub announce: Option<PathBuf>,
    /// A file that says how to fail, read at each call
    #[arg(long, default_value = "/run/rpm-ostreed-faults.json")]
    pub faults: PathBuf,
    /// After how many milliseconds without a client and a transaction it leaves; 0 for never
    #[arg(long, default_value_t = 60_000)]
    pub idle: u64,
}

impl Options {
    fn idle(&self) -> Option<Duration> {
        (self.idle > 0).then(|| Duration::from_millis(self.idle))
    }
}

/// Serves until it has been idle for long enough.
///
/// # Errors
/// Where the bus cannot be had or the name is taken.
pub fn serve(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(daemon::serve(options));
    // What a transaction does on a thread of its own goes with the process.
    runtime.shutdown_background();
    served
}
