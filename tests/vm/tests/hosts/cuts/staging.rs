//! Cuts while an image is brought in and its deployment is staged: whenever, the old system boots, and the update can be
//! made.

use anyhow::{Result, ensure};
use vm::scenario;
use vm::writelog::Side;

use super::boots::{goes_on, is_whole};
use super::judge::Judge;
use super::orders::{memory, seed};
use super::sweep::Sweep;
use crate::change::{Change, REBOOT};

#[test]
fn an_import_and_a_staging() -> Result<()> {
    let change = Change::Image;
    let before = change.before()?;
    let memory = memory()?;
    let mut sweep = Sweep::new(&before, memory.path(), seed()?)?;
    scenario(before, |host| {
        host.run_ok("echo local > /etc/local && sync")?;
        let mut judge = Judge::of(change, host)?;
        let staging = change.begin_staging(host)?;
        sweep.run(host, &mut judge, REBOOT, |host, _| Ok(host.ended(staging)?.is_some()))?;
        // QEMU is killed, and what runs next is what it left.
        host.power_cut();
        sweep.look(host.disk(), &mut judge, 0)?;
        eprintln!("{sweep}");
        ensure!(sweep.faults.is_empty(), "{sweep}");
        host.power_on()?;
        is_whole(host, change, Side::Old, &judge)?;
        change.stage(host)?;
        goes_on(host, change)
    })
}
