//! One test on one host.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FlockOperation, flock};

use crate::evidence;
use crate::host::{Host, HostOrigin, Start};
use crate::lab::Lab;

/// What Flameholder installs, or adds to.
const UNITS: &str = "flameholder-activate.service flameholder-daemon.service flameholder-firstboot.service \
    flameholder-recover.service flameholder-confirm-boot.service ostree-finalize-staged.service";

/// Starts a host, runs the test on it, and looks afterwards whether all is well with the host.
///
/// # Errors
/// The test's; or a unit has failed, or one of Flameholder's has logged an error, that the test did not expect. What
/// explains it is then kept in the target directory, and the error says where.
pub fn scenario(origin: HostOrigin, test: impl FnOnce(&mut Host) -> Result<()>) -> Result<()> {
    scenario_from(Start { origin, write_log: None }, test)
}

/// The same with all that can be chosen.
pub fn scenario_from(start: Start, test: impl FnOnce(&mut Host) -> Result<()>) -> Result<()> {
    let mut host = Host::start_with(start)?;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        test(&mut host)?;
        ensure_no_failures(&mut host)
    }));
    if matches!(ended, Ok(Ok(()))) {
        return Ok(());
    }
    let kept = evidence::keep_and_describe(&mut host);
    match ended {
        Ok(result) => result.map_err(|error| error.context(kept)),
        Err(panic) => {
            eprintln!("{kept}");
            resume_unwind(panic)
        }
    }
}

/// The host of this name, which `make` saves where no test of this program did. Tests in other processes wait for that.
pub fn prepared(name: &str, make: impl FnOnce() -> Result<()>) -> Result<HostOrigin> {
    let lock = Lab::locate()?.folder("prepared")?.join(format!("{name}.lock"));
    let lock = File::create(&lock).with_context(|| format!("making {}", lock.display()))?;
    flock(&lock, FlockOperation::LockExclusive).context("waiting for who prepares a host")?;
    let origin = HostOrigin::Saved(name.to_owned());
    if !origin.is_saved()? {
        make()?;
    }
    Ok(origin)
}

/// A host that the test left switched off is not switched on for this.
fn ensure_no_failures(host: &mut Host) -> Result<()> {
    if host.running.is_none() {
        return Ok(());
    }
    let verified = host.run(&format!("systemd-analyze verify --man=no {UNITS} 2>&1"))?;
    ensure!(verified.code == 0, "systemd finds fault with {UNITS}:\n{}", verified.stdout);
    let failed = host.run_ok("systemctl --failed --plain --no-legend | cut -d' ' -f1")?;
    let failed: Vec<_> = failed
        .lines()
        .filter(|unit| !host.failed_units.iter().any(|known| unit.starts_with(known)))
        .collect();
    ensure!(failed.is_empty(), "units failed: {}", failed.join(", "));
    let errors = host.run_ok(
        "journalctl --no-pager --quiet --output=cat --priority=err --unit='flameholder*' || test $? = 1",
    )?;
    let errors: Vec<_> =
        errors.lines().filter(|line| !host.errors.iter().any(|known| line.contains(known))).collect();
    ensure!(errors.is_empty(), "Flameholder's units logged errors:\n{}", errors.join("\n"));
    Ok(())
}
