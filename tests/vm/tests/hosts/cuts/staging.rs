//! Power cuts during import and staging: the disk always boots the old system, and the update succeeds later.

use anyhow::{Result, ensure};
use vm::scenario;
use vm::writelog::Side;

use super::boots::{complete_change, ensure_intact};
use super::judge::ChangeJudge;
use super::orders::{memory, seed};
use super::sweep::Sweep;
use crate::change::{Change, REBOOT};

#[test]
fn import_and_staging_survive_power_cuts() -> Result<()> {
    let change = Change::Image;
    let before = change.origin()?;
    let memory = memory()?;
    let mut sweep = Sweep::new(&before, memory.path(), seed()?)?;
    scenario(before, |host| {
        host.run_ok("echo local > /etc/local && sync")?;
        let mut judge = ChangeJudge::of(change, host)?;
        let staging = change.begin_staging(host)?;
        sweep.run(host, &mut judge, REBOOT, |host, _| Ok(host.output_if_ended(staging)?.is_some()))?;
        // Kill QEMU at the end, and boot the disk that it left.
        host.power_cut();
        sweep.judge_disk(host.disk(), &mut judge, 0)?;
        eprintln!("{sweep}");
        ensure!(sweep.faults.is_empty(), "{sweep}");
        host.power_on()?;
        ensure_intact(host, change, Side::Old, &judge)?;
        change.stage(host)?;
        complete_change(host, change)
    })
}
