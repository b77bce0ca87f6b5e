//! What came of a replay.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Which state of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// How many flushes are behind it.
    pub epoch: usize,
    /// The last request that may be in it; none where no request is.
    pub entry: Option<usize>,
    /// Which of the states with lost writes; none where all is as at the flush.
    pub variant: Option<u32>,
}

/// A state that should not be.
#[derive(Debug)]
pub struct Fault {
    /// Which.
    pub place: Place,
    /// What is wrong with it.
    pub reason: String,
    /// Where its partitions are, as they were before any repair.
    pub kept: Option<PathBuf>,
}

/// How many states boot what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The old system.
    pub old: usize,
    /// The new one.
    pub new: usize,
    /// Neither, or what should not come any more.
    pub bad: usize,
}

impl Tally {
    fn and(self, other: Self) -> Self {
        Self { old: self.old + other.old, new: self.new + other.new, bad: self.bad + other.bad }
    }
}

/// What came of a replay.
#[derive(Debug, Default)]
pub struct Report {
    /// The states at flushes.
    pub flushed: Tally,
    /// The states with lost writes.
    pub reordered: Tally,
    /// The states with lost writes that boot as soon as the journal of `/boot` is replayed, and not before: so that a
    /// bootloader, which replays none, does not find what it boots.
    pub only_in_journal: Vec<Place>,
    /// The first state at a flush that boots the new system.
    pub switched: Option<Place>,
    /// Whatever is wrong.
    pub faults: Vec<Fault>,
    /// Where the partitions of a state with lost writes are that boots the new system.
    pub sample: Option<PathBuf>,
    /// The first entry of the log that is not all there.
    pub torn_at: Option<usize>,
    /// How long all that took, without copying the disk.
    pub elapsed: Duration,
}

impl Report {
    /// How many states were looked at.
    #[must_use]
    pub fn states(&self) -> usize {
        let count = |tally: Tally| tally.old + tally.new + tally.bad;
        count(self.flushed) + count(self.reordered) + self.only_in_journal.len()
    }

    /// Adds what came of another share of the same replay.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.flushed = self.flushed.and(other.flushed);
        self.reordered = self.reordered.and(other.reordered);
        let switched = [self.switched, other.switched].into_iter().flatten();
        self.switched = switched.min_by_key(|place| place.epoch);
        self.only_in_journal.extend(other.only_in_journal);
        self.sample = self.sample.or(other.sample);
        self.faults.extend(other.faults);
        self.elapsed = self.elapsed.max(other.elapsed);
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flush {}", self.epoch)?;
        if let Some(entry) = self.entry {
            write!(f, ", entry {entry}")?;
        }
        self.variant.map_or(Ok(()), |variant| write!(f, ", lost writes {variant}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)?;
        self.kept.as_ref().map_or(Ok(()), |kept| write!(f, " (kept in {})", kept.display()))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} old, {} new, {} bad", self.old, self.new, self.bad)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at flushes: {}", self.flushed)?;
        writeln!(f, "with lost writes: {}", self.reordered)?;
        for place in &self.only_in_journal {
            writeln!(f, "no bootloader finds its way before the journal of /boot is replayed: {place}")?;
        }
        match self.switched {
            Some(place) => writeln!(f, "the new system boots from {place} on")?,
            None => writeln!(f, "the new system never boots")?,
        }
        if let Some(entry) = self.torn_at {
            writeln!(f, "the log ends with entry {entry}, which is not all there")?;
        }
        writeln!(f, "{} states in {:.1} s", self.states(), self.elapsed.as_secs_f64())?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "{fault}"))
    }
}
