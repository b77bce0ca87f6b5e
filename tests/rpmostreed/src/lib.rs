//! Stand-in for rpm-ostreed on machines without it: owns the daemon's name on a bus, speaks its protocol,
//! oddities included, and makes real deployments in the booted sysroot.
//!
//! RPM is not implemented: a package is a file of its name in a directory that a `.repo` file points to, and
//! layering adds that file to the commit.
//!
//! [`Faults`] are read from a file at each call, so that a test can turn a fault on and off.
//!
//! What it does as the real daemon (2026.2) does, where a kinder stand-in would hide faults of its clients. Tests are below
//! `tests/booted/rpm_ostree`; `recordings` repeats recorded sessions of the real one.
//!
//! | behaviour | in rpm-ostree's source | test |
//! |---|---|---|
//! | `skip-purge` without a new image is an error of the transaction, before it has a title | `src/daemon/rpmostreed-transaction-types.cxx`, conflicting options of a deployment | `recordings::skip_purge_without_an_image_is_refused`, `beside::unmoved_tag_changes_nothing` |
//! | the new OS is checked after it is staged: where `/usr/bin/true` of it fails, so does the transaction, and the locked deployment stays | `rpmostree_deployment_sanitycheck_true` | `failures::rejected_image_is_removed_and_not_tried_again_until_retry`, `recordings::rejected_image_stays_staged` |
//! | the daemon dies between staging and check; a cancellation comes there | the same | `failures::daemon_death_between_staging_and_check_is_no_success`, `failures::cancellation_between_staging_and_check_is_no_success` |
//! | a transaction whose client is gone goes on | `src/daemon/rpmostreed-transaction.cxx` | `recordings::transaction_outlives_its_owner`, `meddling::recovery_takes_back_an_interrupted_request` |
//! | `finalization-locked` is shown by the lock file alone, and only after a change of the sysroot's time is it looked for | `deployment_populate_variant` in `rust/src/daemon.rs`; `ostree_sysroot_load_if_changed` | `beside::files_update_bypasses_the_daemon_which_sees_its_deployment` |
//! | `Package/capability '…' is already requested` and `… is not currently requested` | the package lists of the origin | `recordings::package_is_not_added_twice`, `recordings::package_that_was_not_requested_is_named` |
//! | a package that the image does not have is not removed: `Package "…" not found` | the sysroot upgrader, before it layers | `recordings::override_of_a_missing_package_is_refused` |
//! | tasks are numbered where they begin, and end with `done` alone | `rust/src/sysroot_upgrade.rs` | `recordings::rebase_is_followed` |
//! | the same reference again is an error | `change_origin_refspec` in `src/daemon/rpmostreed-transaction-types.cxx` | `recordings::same_image_is_refused_and_upgrade_finds_nothing` |
//! | a held sysroot lock is an error at once; another client is refused, or joins an equal call | `src/daemon/rpmostreed-transaction-monitor.cxx` | `recordings::held_lock_is_an_error_at_once`, `recordings::second_client_is_refused_or_joins` |
//! | any client cancels | the transaction's socket, which is open to all users | `recordings::another_client_cancels`, `meddling` |
//! | a package's script that fails ends the transaction before anything is staged | the core's import and assembly | `recordings::failed_script_of_a_package_is_named` |
//! | packages without `no-pull-base` ask the registry for the base's tag first | `src/daemon/rpmostreed-transaction-types.cxx` | `recordings::packages_alone_pull_the_tag_of_their_base` |
//!
//! The packages of an image are listed in its `usr/share/packages.list`. The real daemon reads the RPM database that
//! `osimage --rpm-database` adds, with the same packages.

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
