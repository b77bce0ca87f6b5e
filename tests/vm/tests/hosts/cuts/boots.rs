//! Disks that a cut left, or might have left, booted.

use anyhow::{Result, ensure};
use vm::writelog::Side;
use vm::{Host, Warm, scenario};

use super::judge::Judge;
use super::orders::is_exhaustive;
use crate::change::{Change, REBOOT, ends_well};
use vm::operator::{booted, settled, status};

/// The disk boots the generation that it was judged to, which is whole and says so; and the change comes through.
pub fn boots(change: Change, disk: Warm, side: Side, judge: &Judge) -> Result<()> {
    scenario(disk, |host| {
        if change == Change::Leave {
            return leaves(host, judge);
        }
        is_whole(host, change, side, judge)?;
        if side == Side::Old {
            goes_on(host, change)?;
        }
        // It checksums the whole OS, which takes longer than a boot.
        if change == Change::Image || is_exhaustive() {
            ends_well(host, "ostree fsck --quiet")?;
        }
        Ok(())
    })
}

/// What is not healthy is left by itself, if that did not happen yet.
fn leaves(host: &mut Host, judge: &Judge) -> Result<()> {
    host.wait_for_boot_with(&format!("flameholder.generation={}", judge.new.id), REBOOT)?;
    host.allow_error("flameholder-activate.service");
    is_whole(host, Change::Leave, Side::New, judge)
}

/// What runs is that side, and nothing deviates from its record.
pub fn is_whole(host: &mut Host, change: Change, side: Side, judge: &Judge) -> Result<()> {
    let generation = if side == Side::Old { &judge.old } else { &judge.new };
    let line = host.run_ok("cat /proc/cmdline")?;
    let argument = format!("flameholder.generation={}", generation.id);
    ensure!(line.contains(&argument), "not {argument} runs: {line}");
    host.run_ok("flameholder verify")?;
    if side == Side::New {
        return settled(host, change.target());
    }
    let status = status(host)?;
    ensure!(status["transaction"].is_null(), "a change is open: {status:#}");
    let runs = &booted(&status)?["generation"];
    ensure!(runs["config"] == generation.expected.config && runs["recordMatches"] == true, "{status:#}");
    Ok(())
}

/// The change that was cut is made after all.
pub fn goes_on(host: &mut Host, change: Change) -> Result<()> {
    let before = host.boot_id()?;
    host.spawn(change.command())?;
    host.wait_for_boot(&before, REBOOT)?;
    settled(host, change.target())
}
