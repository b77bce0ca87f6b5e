//! State after state: rebuild it, repair it, ask what it boots, and take the repair back.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use super::boot::BootedSystem;
use super::disk::{Disk, Layout};
use super::inspect::{Defect, inspect};
use super::log::{Entry, Epoch, Kind, WriteLog};
use super::report::{Fault, Place, Report};

/// Which system a state boots. What is neither is an error of whoever is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The one from before.
    Old,
    /// The one that it is changed to.
    New,
}

/// A log, the disk that it begins with, and what is to be made of them.
#[derive(Debug, Clone)]
pub struct Replay {
    /// How often, between two flushes, a random half of the writes is lost. None at 0.
    pub variants: u32,
    /// For the same halves in each run.
    pub seed: u64,
    /// Which share of the states is looked at, and of how many: replays in threads of their own each take one.
    pub share: (usize, usize),
    /// Every how many states the file systems are checked from end to end as well. Never at 0.
    pub audit_every: usize,
    /// Where bad states are kept.
    pub keep_in: PathBuf,
    /// How many of them are kept at most.
    pub keep_at_most: usize,
    /// Where the first state that lost writes and boots the new system is kept, to be booted.
    pub sample_in: Option<PathBuf>,
}

impl Replay {
    /// Two variants for each flush, an audit of every tenth state, and three bad states kept.
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

    /// Goes through all states. `judge` is asked what each of them boots; it fails where that is
    /// neither the old system nor the new one. `base` is the raw disk before the first request, and
    /// `directory` has room for its partitions, in memory best.
    ///
    /// # Errors
    /// A state cannot be rebuilt. What is wrong with a state is in the report.
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
    /// What the last good state at a flush boots.
    at_flush: Side,
}

impl Run<'_> {
    fn epoch(&mut self, epoch: Epoch<'_>) -> Result<()> {
        let (share, shares) = self.replay.share;
        if epoch.number % shares != share {
            return epoch.entries.iter().try_for_each(|entry| self.disk.apply(self.log, entry));
        }
        // The same halves whoever has the epochs before.
        self.random.seed(self.replay.seed.wrapping_add(u64::try_from(epoch.number)?));
        let writes: Vec<_> = epoch.entries.iter().filter(|entry| entry.kind == Kind::Write).collect();
        // Lost or not: of a single write there is no half.
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
            // What was lost may be what switches, but nothing else decides.
            if after == Some(Side::Old) && side == Side::New {
                let reason = "boots the New system, before a flush that has the Old one still".to_owned();
                self.report.faults.push(Fault { place, reason, kept: None });
                self.report.reordered.bad += 1;
            } else {
                count(&mut self.report.reordered, side);
            }
        }
        Ok(())
    }

    /// Looks at the disk as it is; none where it is bad.
    fn at_flush(&mut self, place: Place) -> Result<Option<Side>> {
        let inspected = self.inspect()?;
        let judged = inspected.and_then(|side| self.reject_return_to_old(side)).and_then(|side| match side {
            Side::New if place.epoch == 0 => Err(Defect::Bad(anyhow!("boots the New system at the start"))),
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
            Err(wrong) => {
                self.report.flushed.bad += 1;
                self.fault(place, &wrong)?;
                Ok(None)
            }
        }
    }

    /// There is no way back.
    fn reject_return_to_old(&self, side: Side) -> Result<Side, Defect> {
        if side < self.at_flush {
            return Err(Defect::Bad(anyhow!("boots the Old system again, after the New one")));
        }
        Ok(side)
    }

    /// Looks at the disk with a random half of the writes, up to the end or to a random one.
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
            // Neither the agent nor libostree can help it: no file system writes its journal back at one stroke, and the
            // bootloader comes before the kernel, which would replay it.
            Err(Defect::OnlyInJournal(_)) => {
                self.report.only_in_journal.push(place);
                None
            }
            Err(wrong @ Defect::Bad(_)) => {
                self.report.reordered.bad += 1;
                self.fault(place, &wrong)?;
                None
            }
        };
        for pre_image in pre_images.iter().rev() {
            self.disk.restore(pre_image)?;
        }
        Ok(outcome)
    }

    /// Keeps the state that the disk is in, if it is the first.
    fn sample(&mut self) -> Result<()> {
        if let (Some(directory), None) = (&self.replay.sample_in, &self.report.sample) {
            self.disk.keep(directory)?;
            self.report.sample = Some(directory.clone());
        }
        Ok(())
    }

    /// The inner error is the state's.
    fn inspect(&mut self) -> Result<Result<Side, Defect>> {
        let every = self.replay.audit_every;
        let is_audited = every > 0 && self.report.states().is_multiple_of(every);
        inspect(&self.disk, is_audited, self.judge)
    }

    fn fault(&mut self, place: Place, wrong: &Defect) -> Result<()> {
        let kept = self.report.faults.iter().filter(|fault| fault.kept.is_some()).count();
        let mut fault = Fault { place, reason: wrong.to_string(), kept: None };
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
