//! A sweep: power cuts during one run of a change, each of which judges the disk as it is at that moment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, fs};

use anyhow::{Result, bail};
use fastrand::Rng;
use vm::writelog::{OverlayDisk, Side};
use vm::{Host, HostOrigin, Lab};

use super::judge::DiskJudge;
use super::steps::{Progress, STEPS};

/// Disk at a cut, kept to be booted.
#[derive(Debug)]
pub struct KeptDisk {
    pub image: PathBuf,
    pub side: Side,
    pub step: &'static str,
}

/// The power cuts of one run, and their results.
#[derive(Debug)]
pub struct Sweep {
    disk: OverlayDisk,
    random: Rng,
    folder: PathBuf,
    /// By index of the step: numbers of disks that boot the old system and the new one.
    tallies: BTreeMap<usize, (usize, usize)>,
    last: Option<(SystemTime, Side)>,
    /// Number of cuts at which the disk was the same as at the previous one.
    unchanged: usize,
    pub kept: Vec<KeptDisk>,
    pub faults: Vec<String>,
    judging: Duration,
}

impl Sweep {
    /// Create a sweep for a host that starts from `origin`; `folder` is in memory.
    pub fn new(origin: &HostOrigin, folder: &Path, seed: u64) -> Result<Self> {
        let base = folder.join("base");
        origin.write_raw(&base)?;
        let partitions = folder.join("cut");
        fs::create_dir_all(&partitions)?;
        Ok(Self {
            disk: OverlayDisk::new(Lab::locate()?, &base, &partitions)?,
            random: Rng::with_seed(seed),
            folder: folder.to_owned(),
            tallies: BTreeMap::new(),
            last: None,
            unchanged: 0,
            kept: Vec::new(),
            faults: Vec::new(),
            judging: Duration::ZERO,
        })
    }

    /// Cut the power of the host until the change is complete on a disk, or `is_enough` returns true.
    pub fn run(
        &mut self,
        host: &mut Host,
        judge: &mut dyn DiskJudge,
        limit: Duration,
        mut is_enough: impl FnMut(&mut Host, &Progress) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut progress = Progress::default();
        while !judge.is_complete() {
            progress.follow(&host.console()?);
            if is_enough(host, &progress)? {
                break;
            }
            if begun.elapsed() > limit {
                bail!("the host is still in step {} after {} s", progress.step().name, limit.as_secs());
            }
            let step = progress.step();
            let number = STEPS.iter().position(|other| other.name == step.name).unwrap_or_default();
            let (old, new) = self.tallies.get(&number).copied().unwrap_or_default();
            let pace = if old + new > step.dense_cuts { 10 } else { 1 };
            host.run_for(Duration::from_millis(pace * self.random.u64(step.interval_ms.clone())))?;
            self.cut(host, judge, number)?;
        }
        Ok(())
    }

    fn cut(&mut self, host: &mut Host, judge: &mut dyn DiskJudge, step: usize) -> Result<()> {
        let begun = Instant::now();
        host.frozen(|image| self.judge_disk(image, judge, step))?;
        self.judging += begun.elapsed();
        Ok(())
    }

    /// Judge a disk image that is not written to meanwhile.
    pub fn judge_disk(&mut self, image: &Path, judge: &mut dyn DiskJudge, step: usize) -> Result<()> {
        let written = fs::metadata(image)?.modified()?;
        if self.last.is_some_and(|(last, _)| last == written) {
            self.unchanged += 1;
            return Ok(());
        }
        let before = self.last.map(|(_, side)| side);
        let judged = self.disk.inspect(image, false, &mut |booted| judge.side(booted))?;
        let judged = match judged {
            Ok(Side::Old) if before == Some(Side::New) => {
                Err("the old system boots again, after the new one".to_owned())
            }
            judged => judged.map_err(|defect| defect.to_string()),
        };
        let tally = self.tallies.entry(step).or_default();
        match judged {
            Ok(side) => {
                if side == Side::Old {
                    tally.0 += 1;
                } else {
                    tally.1 += 1;
                }
                self.last = Some((written, side));
                self.keep(image, side, before, step)?;
            }
            Err(reason) => {
                self.last = Some((written, before.unwrap_or(Side::Old)));
                let fault = format!("{}: {reason}", STEPS[step].name);
                if self.faults.last() != Some(&fault) {
                    eprintln!("{fault}");
                }
                self.faults.push(fault);
            }
        }
        Ok(())
    }

    /// Keep the last disk that boots the old system, the first that boots the new one, and one from
    /// activation.
    fn keep(&mut self, image: &Path, side: Side, before: Option<Side>, step: usize) -> Result<()> {
        let step = STEPS[step].name;
        let is_last = side == Side::Old && step == "finalizing";
        let is_first = side == Side::New && before == Some(Side::Old);
        let has_one = self.kept.iter().any(|kept| kept.step == "activating");
        let is_of_activation = step == "activating" && !has_one && self.random.u8(..4) == 0;
        if is_last || is_first || is_of_activation {
            let kept = self.folder.join(format!("kept-{side:?}-{step}.qcow2"));
            fs::copy(image, &kept)?;
            self.kept.retain(|other| other.image != kept);
            self.kept.push(KeptDisk { image: kept, side, step });
        }
        Ok(())
    }

    /// Return the number of cuts at which a new state of the disk was judged.
    pub fn cuts(&self) -> usize {
        self.tallies.values().map(|(old, new)| old + new).sum::<usize>() + self.faults.len()
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, (old, new)) in &self.tallies {
            writeln!(f, "{:12} {old:4} old {new:4} new", STEPS[*step].name)?;
        }
        let (cuts, unchanged, seconds) = (self.cuts(), self.unchanged, self.judging.as_secs_f64());
        writeln!(f, "{cuts} cuts judged in {seconds:.1} s; {unchanged} more found the disk unchanged")?;
        let bad = self.faults.len();
        self.faults.iter().take(5).try_for_each(|fault| writeln!(f, "one of {bad} bad states: {fault}"))
    }
}
