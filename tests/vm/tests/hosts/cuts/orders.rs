//! Power cuts at each step of a change, and a replay of its writes in each order that the disk could have
//! kept.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use vm::operator::ensure_current;
use vm::writelog::{Layout, Replay, Report, Side, WriteLog};
use vm::{HostOrigin, Start, scenario_from};

use super::boots::ensure_disk_boots;
use super::judge::{ChangeJudge, DiskJudge as _};
use super::sweep::{KeptDisk, Sweep};
use crate::change::{Change, REBOOT};
use crate::prepared::staged;

/// Minimum number of cuts per change.
const MIN_CUTS: usize = 20;
const MIN_EXHAUSTIVE_CUTS: usize = 350;

/// Return the seed of `FLAMEHOLDER_SEED`, or a random one, and print it. The same seed repeats cuts and lost
/// writes.
pub fn seed() -> Result<u64> {
    let seed = match std::env::var("FLAMEHOLDER_SEED") {
        Ok(seed) => seed.parse().context("FLAMEHOLDER_SEED is not a number")?,
        Err(_) => fastrand::u64(..),
    };
    eprintln!("FLAMEHOLDER_SEED={seed}");
    Ok(seed)
}

/// Return true if the run is exhaustive, which takes hours.
pub fn is_exhaustive() -> bool {
    std::env::var_os("FLAMEHOLDER_EXHAUSTIVE").is_some()
}

/// Create a folder in memory for disks, which are read and written several times per state.
pub fn memory() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("vm-cuts-").tempdir_in("/dev/shm")?)
}

fn ensure_survives_cuts(change: Change) -> Result<()> {
    let staged = staged(change)?;
    let seed = seed()?;
    let memory = memory()?;
    let log = memory.path().join("log");
    let (sweep, judge) = cut_change(change, &staged, memory.path(), Some(log.clone()), seed)?;
    let report = replay_log(memory.path(), &log, seed, &judge)?;
    eprintln!("{change:?}, replay: {report}");
    ensure!(sweep.faults.is_empty() && report.faults.is_empty(), "{sweep}{report}");
    let unreadable = report.only_in_journal.len();
    ensure!(
        unreadable <= report.states() / 20,
        "too many states that boot only after a replay of the journal of /boot: {report}"
    );
    for (disk, side, origin) in disks_to_boot(change, &sweep.kept, &report, memory.path())? {
        let begun = Instant::now();
        ensure_disk_boots(change, disk, side, &judge)?;
        eprintln!("booted the disk of {origin} in {:.1} s", begun.elapsed().as_secs_f64());
    }
    // Most of an automatic rollback is the reboot, which the other changes cut as well.
    let fewest = if change == Change::AutomaticRollback { MIN_CUTS / 2 } else { MIN_CUTS };
    let required = if is_exhaustive() { MIN_EXHAUSTIVE_CUTS } else { fewest };
    let (mut cuts, mut seed) = (sweep.cuts(), seed);
    while cuts < required {
        seed = seed.wrapping_add(1);
        let (sweep, _) = cut_change(change, &staged, memory.path(), None, seed)?;
        ensure!(sweep.faults.is_empty(), "with seed {seed}: {sweep}");
        cuts += sweep.cuts();
    }
    Ok(())
}

/// Select the disks to boot, each of which takes a minute: origin, side, description.
fn disks_to_boot(
    change: Change,
    kept: &[KeptDisk],
    report: &Report,
    memory: &Path,
) -> Result<Vec<(HostOrigin, Side, String)>> {
    let cut = |kept: &KeptDisk| {
        (HostOrigin::Disk(kept.image.clone()), kept.side, format!("a cut in step {}", kept.step))
    };
    // Prefer a disk of the old system: on it the change can be made again.
    let chosen = kept.iter().find(|kept| kept.side == Side::Old).or(kept.first());
    let reordered = || -> Result<_> {
        let sample = report.sample.as_ref().context("no state with lost writes boots the new system")?;
        let disk = HostOrigin::of_kept_state(sample, &memory.join("base"), memory.join("lost.qcow2"))?;
        Ok((disk, Side::New, "a state with lost writes".to_owned()))
    };
    Ok(match change {
        _ if is_exhaustive() => kept.iter().map(cut).chain([reordered()?]).collect(),
        Change::Image | Change::AutomaticRollback => chosen.map(cut).into_iter().collect(),
        Change::Files => Vec::new(),
        Change::Rollback => vec![reordered()?],
    })
}

/// Make the change once, with power cuts at each step.
fn cut_change(
    change: Change,
    staged: &HostOrigin,
    memory: &Path,
    write_log: Option<PathBuf>,
    seed: u64,
) -> Result<(Sweep, ChangeJudge)> {
    let mut sweep = Sweep::new(staged, memory, seed)?;
    let mut judge = None;
    let begun = Instant::now();
    scenario_from(Start { write_log, ..staged.clone().into() }, |host| {
        let judge = judge.insert(ChangeJudge::of(change, host)?);
        let before = host.boot_id()?;
        host.spawn(&change.command())?;
        sweep.run(host, judge, REBOOT, |_, _| Ok(false))?;
        host.wait_for_boot(&before, REBOOT)?;
        ensure_current(host, change.target())?;
        host.power_cut();
        Ok(())
    })?;
    eprintln!("{change:?}, power cuts for {:.1} s:\n{sweep}", begun.elapsed().as_secs_f64());
    Ok((sweep, judge.context("the scenario did not run")?))
}

/// Judge all states of a write log, in two threads. The disk before the first write is `base` in `memory`.
pub fn replay_log(memory: &Path, log: &Path, seed: u64, judge: &ChangeJudge) -> Result<Report> {
    let (base, log) = (memory.join("base"), WriteLog::open(log)?);
    let variants = if is_exhaustive() { 32 } else { 4 };
    let share = |share: usize| -> Result<Report> {
        let mut judge = judge.clone();
        let folder = memory.join(format!("share-{share}"));
        std::fs::create_dir_all(&folder)?;
        let replay = Replay {
            audit_every: 0,
            variants,
            seed,
            share: (share, 2),
            sample_in: Some(folder.join("sample")),
            ..Replay::keeping_in(&folder)
        };
        let layout = Layout::of_mbr(&base)?;
        replay.run(&log, &base, layout, &folder, &mut |booted| judge.side(booted))
    };
    std::thread::scope(|threads| {
        let other = threads.spawn(|| share(1));
        let first = share(0)?;
        Ok(first.and(other.join().expect("the replay thread panicked")?))
    })
}

#[test]
fn image_update_survives_power_cuts() -> Result<()> {
    ensure_survives_cuts(Change::Image)
}

#[test]
fn file_update_survives_power_cuts() -> Result<()> {
    ensure_survives_cuts(Change::Files)
}

#[test]
fn automatic_rollback_survives_power_cuts() -> Result<()> {
    ensure_survives_cuts(Change::AutomaticRollback)
}

#[test]
#[ignore = "exhaustive: staging and finalization are the same as in an update"]
fn rollback_survives_power_cuts() -> Result<()> {
    ensure_survives_cuts(Change::Rollback)
}
