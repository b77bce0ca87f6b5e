//! Boots of disks as a power cut left them, or might have left them.

use anyhow::{Result, ensure};
use vm::operator::{allow_rollback, booted, ensure_current, status};
use vm::writelog::Side;
use vm::{Host, HostOrigin, scenario};

use super::judge::ChangeJudge;
use super::orders::is_exhaustive;
use crate::change::{Change, REBOOT, run_to_success};

/// Boot a disk that was judged as `side`. Its generation has to be intact, and an interrupted change has to
/// succeed when it is made again.
pub fn ensure_disk_boots(change: Change, disk: HostOrigin, side: Side, judge: &ChangeJudge) -> Result<()> {
    scenario(disk, |host| {
        if change == Change::AutomaticRollback {
            return ensure_rolled_back(host, judge);
        }
        ensure_intact(host, change, side, judge)?;
        if side == Side::Old {
            complete_change(host, change)?;
        }
        // `ostree fsck` checksums the whole OS, which takes longer than a boot.
        if change == Change::Image || is_exhaustive() {
            run_to_success(host, "ostree fsck --quiet")?;
        }
        Ok(())
    })
}

/// Wait for the automatic rollback, which may have happened before the cut.
fn ensure_rolled_back(host: &mut Host, judge: &ChangeJudge) -> Result<()> {
    host.wait_for_boot_with(&format!("flameholder.generation={}", judge.new.id), REBOOT)?;
    host.allow_error("flameholder-activate.service");
    allow_rollback(host);
    ensure_intact(host, Change::AutomaticRollback, Side::New, judge)
}

/// Check that the generation of `side` is booted, and that `flameholder verify` finds no drift.
pub fn ensure_intact(host: &mut Host, change: Change, side: Side, judge: &ChangeJudge) -> Result<()> {
    let generation = if side == Side::Old { &judge.old } else { &judge.new };
    let line = host.run_ok("cat /proc/cmdline")?;
    let argument = format!("flameholder.generation={}", generation.id);
    ensure!(line.contains(&argument), "{argument} is not on the kernel command line: {line}");
    host.run_ok("flameholder verify")?;
    if side == Side::New {
        return ensure_current(host, change.target());
    }
    let status = status(host)?;
    ensure!(status["transaction"].is_null(), "a transaction is open: {status:#}");
    let running = &booted(&status)?["generation"];
    ensure!(
        running["config"] == generation.expected.config && running["recordMatches"] == true,
        "{status:#}"
    );
    Ok(())
}

/// Make the change that the power cut interrupted.
pub fn complete_change(host: &mut Host, change: Change) -> Result<()> {
    let before = host.boot_id()?;
    host.spawn(&change.command())?;
    host.wait_for_boot(&before, REBOOT)?;
    ensure_current(host, change.target())
}
