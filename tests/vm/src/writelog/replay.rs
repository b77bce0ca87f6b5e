//! Replay of a write log: rebuild, repair and judge one state after the other.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use super::boot::BootedSystem;
use super::disk::{Disk, Layout};
use super::inspect::{Defect, inspect};
use super::log::{Entry, Epoch, Kind, WriteLog};
use super::report::{Fault, Place, Report};

/// The system that a state boots. A judge returns an error for a mixture of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The system from before the change.
    Old,
    /// The system that the change leads to.
    New,
}

/// Options of a replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Number of states with lost writes between two flushes; each loses a random half of the writes.
    pub variants: u32,
    /// Seed of the random choices, to repeat a run.
    pub seed: u64,
    /// Share of the states to judge, and number of shares. Replays in several threads take one share each.
    pub share: (usize, usize),
    /// Number of states per full check of the file systems; 0 for no checks.
    pub audit_every: usize,
    /// Folder for the disks of bad states.
    pub keep_in: PathBuf,
    /// Maximum number of bad states that are kept.
    pub keep_at_most: usize,
    /// Folder for the first state that has lost writes and boots the new system, so that a host can boot it.
    pub sample_in: Option<PathBuf>,
}

impl Replay {
    /// Return options with two variants per flush, a full check of every tenth state, and three bad states
    /// kept.
    #[must_use]
    pub fn keeping_in(directory: &Path) -> Self {
        Self {
            variants: 2,
            seed: 1,
            share: (0, 1),
            audit_every: 10,
            keep_in: directory.to_owned(),
            keep_at_most: 3,
            sample_in: None,
        }
    }

    /// Judge all states of the log. `base` is the raw disk before the first request. `directory` gets its
    /// partitions, and should be in memory. `judge` fails if a state boots neither the old system nor the new
    /// one.
    ///
    /// # Errors
    /// A state cannot be rebuilt. A bad state is no error, but a fault in the report.
    pub fn run(
        &self,
        log: &WriteLog,
        base: &Path,
        layout: Layout,
        directory: &Path,
        judge: &mut dyn FnMut(&BootedSystem) -> Result<Side>,
    ) -> Result<Report> {
        let disk = Disk::extract(base, layout, directory)?;
        let report = Report { torn_at: log.torn_at(), ..Report::default() };
        let random = fastrand::Rng::with_seed(self.seed);
        let mut run = Run { replay: self, log, disk, judge, random, report, at_flush: Side::Old };
        let begun = Instant::now();
        run.at_flush(Place { epoch: 0, entry: None, variant: None })?;
        for epoch in log.epochs() {
            run.epoch(epoch).with_context(|| format!("replaying up to flush {}", epoch.number))?;
        }
        run.report.elapsed = begun.elapsed();
        Ok(run.report)
    }
}

struct Run<'r> {
    replay: &'r Replay,
    log: &'r WriteLog,
    disk: Disk,
    judge: &'r mut dyn FnMut(&BootedSystem) -> Result<Side>,
    random: fastrand::Rng,
    report: Report,
    /// Side that the last good state at a flush boots.
    at_flush: Side,
}

impl Run<'_> {
    fn epoch(&mut self, epoch: Epoch<'_>) -> Result<()> {
        let (share, shares) = self.replay.share;
        if epoch.number % shares != share {
            return epoch.entries.iter().try_for_each(|entry| self.disk.apply(self.log, entry));
        }
        // Seed by epoch, so that the lost writes are the same for any division into shares.
        self.random.seed(self.replay.seed.wrapping_add(u64::try_from(epoch.number)?));
        let writes: Vec<_> = epoch.entries.iter().filter(|entry| entry.kind == Kind::Write).collect();
        // A single write has no half.
        let variants = if writes.len() > 1 { self.replay.variants } else { 0 };
        let mut reordered = Vec::new();
        for variant in 0..variants {
            reordered.push(self.variant(epoch.number, variant, &writes)?);
        }
        for entry in epoch.entries {
            self.disk.apply(self.log, entry)?;
        }
        let entry = epoch.entries.last().map(|entry| entry.index);
        let after = self.at_flush(Place { epoch: epoch.number, entry, variant: None })?;
        for (place, side) in reordered.into_iter().flatten() {
            // If all writes boot the old system, a part of them must not boot the new one.
            if after == Some(Side::Old) && side == Side::New {
                let reason =
                    "boots the new system with lost writes, but the old one at the next flush".to_owned();
                self.report.faults.push(Fault { place, reason, kept: None });
                self.report.reordered.bad += 1;
            } else {
                count(&mut self.report.reordered, side);
            }
        }
        Ok(())
    }

    /// Judge the current disk. Returns `None` if the state is bad.
    fn at_flush(&mut self, place: Place) -> Result<Option<Side>> {
        let inspected = self.inspect()?;
        let judged = inspected.and_then(|side| self.reject_return_to_old(side)).and_then(|side| match side {
            Side::New if place.epoch == 0 => {
                Err(Defect::Bad(anyhow!("boots the new system before the first request")))
            }
            side => Ok(side),
        });
        match judged {
            Ok(side) => {
                if side == Side::New && self.at_flush == Side::Old {
                    self.report.switched = Some(place);
                }
                self.at_flush = side;
                count(&mut self.report.flushed, side);
                Ok(Some(side))
            }
            Err(defect) => {
                self.report.flushed.bad += 1;
                self.fault(place, &defect)?;
                Ok(None)
            }
        }
    }

    /// Reject a state that boots the old system after the new one was booted.
    fn reject_return_to_old(&self, side: Side) -> Result<Side, Defect> {
        if side < self.at_flush {
            return Err(Defect::Bad(anyhow!("boots the old system again, after the new one")));
        }
        Ok(side)
    }

    /// Judge the disk with a random half of the writes, either of all or of those up to a random one.
    fn variant(&mut self, epoch: usize, variant: u32, writes: &[&Entry]) -> Result<Option<(Place, Side)>> {
        let reached =
            if variant.is_multiple_of(2) { writes.len() } else { self.random.usize(1..=writes.len()) };
        let mut pre_images = Vec::new();
        for entry in writes.iter().take(reached) {
            if entry.is_durable || self.random.bool() {
                pre_images.push(self.disk.pre_image(entry)?);
                self.disk.apply(self.log, entry)?;
            }
        }
        let last = writes.get(reached.saturating_sub(1)).map(|entry| entry.index);
        let place = Place { epoch, entry: last, variant: Some(variant) };
        let judged = self.inspect()?.and_then(|side| self.reject_return_to_old(side));
        let outcome = match judged {
            Ok(side) => {
                if side == Side::New {
                    self.sample()?;
                }
                Some((place, side))
            }
            // The agent and libostree cannot prevent this state: a file system does not write its journal
            // back atomically, and the bootloader runs before the kernel, which would replay it.
            Err(Defect::OnlyInJournal(_)) => {
                self.report.only_in_journal.push(place);
                None
            }
            Err(defect @ Defect::Bad(_)) => {
                self.report.reordered.bad += 1;
                self.fault(place, &defect)?;
                None
            }
        };
        for pre_image in pre_images.iter().rev() {
            self.disk.restore(pre_image)?;
        }
        Ok(outcome)
    }

    /// Keep the current disk as the sample, if there is none yet.
    fn sample(&mut self) -> Result<()> {
        if let (Some(directory), None) = (&self.replay.sample_in, &self.report.sample) {
            self.disk.keep(directory)?;
            self.report.sample = Some(directory.clone());
        }
        Ok(())
    }

    /// Inspect the current disk. The inner error is a defect of the state.
    fn inspect(&mut self) -> Result<Result<Side, Defect>> {
        let every = self.replay.audit_every;
        let is_audited = every > 0 && self.report.states().is_multiple_of(every);
        inspect(&self.disk, is_audited, self.judge)
    }

    fn fault(&mut self, place: Place, defect: &Defect) -> Result<()> {
        let kept = self.report.faults.iter().filter(|fault| fault.kept.is_some()).count();
        let mut fault = Fault { place, reason: defect.to_string(), kept: None };
        if kept < self.replay.keep_at_most {
            let variant = place.variant.map(|variant| format!("-lost-{variant}")).unwrap_or_default();
            let directory = self.replay.keep_in.join(format!("flush-{}{variant}", place.epoch));
            self.disk.keep(&directory).with_context(|| format!("keeping {}", directory.display()))?;
            fault.kept = Some(directory);
        }
        self.report.faults.push(fault);
        Ok(())
    }
}

fn count(tally: &mut super::report::Tally, side: Side) {
    match side {
        Side::Old => tally.old += 1,
        Side::New => tally.new += 1,
    }
}
