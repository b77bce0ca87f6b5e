//! Scenarios: one test on one host.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FlockOperation, flock};

use crate::evidence;
use crate::host::{Host, HostOrigin, Start};
use crate::lab::{GuestOs, Lab};

/// Units that Flameholder installs or extends with a drop-in.
const UNITS: &str = "flameholder-activate.service flameholder-daemon.service flameholder-firstboot.service \
    flameholder-activate-mounts.service flameholder-recover.service flameholder-confirm-boot.service \
    ostree-finalize-staged.service";

/// Start a host, run the test on it, and check the host afterwards: no failed units, no errors in the
/// journal, valid unit files.
///
/// # Errors
/// The test fails, or a check finds a failure that the test has not declared. Consoles and journal are then
/// kept in the target directory; the error names the folder.
pub fn scenario(origin: HostOrigin, test: impl FnOnce(&mut Host) -> Result<()>) -> Result<()> {
    scenario_from(origin.into(), test)
}

/// Run a scenario with all options of the host's start.
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

/// Return the saved host of this name. The first test that asks for it runs `make` to save it; tests in other
/// processes wait.
pub fn prepared(name: &str, make: impl FnOnce() -> Result<()>) -> Result<HostOrigin> {
    let lock = Lab::locate()?.folder("prepared")?.join(format!("{name}.lock"));
    let lock = File::create(&lock).with_context(|| format!("making {}", lock.display()))?;
    flock(&lock, FlockOperation::LockExclusive).context("waiting for the lock of a prepared host")?;
    let origin = HostOrigin::Saved(name.to_owned());
    if !origin.is_saved()? {
        make()?;
    }
    Ok(origin)
}

/// Check units and journal of a running host. A host that the test left switched off is not checked.
fn ensure_no_failures(host: &mut Host) -> Result<()> {
    if host.running.is_none() {
        return Ok(());
    }
    let verified = host.run(&format!("systemd-analyze verify --man=no {UNITS} 2>&1"))?;
    ensure!(verified.code == 0, "systemd-analyze verify reports problems with {UNITS}:\n{}", verified.stdout);
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
    match host.lab().os() {
        GuestOs::Plain | GuestOs::Kola => Ok(()),
        GuestOs::Selinux => host.ensure_confined(),
    }
}
