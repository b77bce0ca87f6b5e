//! Report of a replay.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Position of a state in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of flushes before the state.
    pub epoch: usize,
    /// Index of the last request that the state may contain, if any.
    pub entry: Option<usize>,
    /// Number of the state among those with lost writes; `None` for the state at the flush.
    pub variant: Option<u32>,
}

/// A bad state.
#[derive(Debug)]
pub struct Fault {
    pub place: Place,
    pub reason: String,
    /// Folder with the partitions from before any repair, if the state was kept.
    pub kept: Option<PathBuf>,
}

/// Number of states by the system that they boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub old: usize,
    pub new: usize,
    /// States that boot neither system, or the old one after the new one.
    pub bad: usize,
}

impl Tally {
    fn and(self, other: Self) -> Self {
        Self { old: self.old + other.old, new: self.new + other.new, bad: self.bad + other.bad }
    }
}

/// Counts, positions and faults of the states of a replay.
#[derive(Debug, Default)]
pub struct Report {
    /// States at flushes.
    pub flushed: Tally,
    /// States with lost writes.
    pub reordered: Tally,
    /// States with lost writes that boot only once the journal of `/boot` is replayed, which bootloaders do
    /// not do.
    pub only_in_journal: Vec<Place>,
    /// First state at a flush that boots the new system.
    pub switched: Option<Place>,
    pub faults: Vec<Fault>,
    /// Folder with the partitions of a state that has lost writes and boots the new system.
    pub sample: Option<PathBuf>,
    /// Index of the first incomplete entry of the log, if its end is torn.
    pub torn_at: Option<usize>,
    /// Duration of the replay, without the copy of the disk.
    pub elapsed: Duration,
}

impl Report {
    /// Return the number of judged states.
    #[must_use]
    pub fn states(&self) -> usize {
        let count = |tally: Tally| tally.old + tally.new + tally.bad;
        count(self.flushed) + count(self.reordered) + self.only_in_journal.len()
    }

    /// Add the report of another share of the same replay.
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
        self.variant.map_or(Ok(()), |variant| write!(f, ", variant {variant} of lost writes"))
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
            writeln!(f, "boots only after the journal of /boot is replayed: {place}")?;
        }
        match self.switched {
            Some(place) => writeln!(f, "first state that boots the new system: {place}")?,
            None => writeln!(f, "no state boots the new system")?,
        }
        if let Some(entry) = self.torn_at {
            writeln!(f, "the log is torn at entry {entry}")?;
        }
        writeln!(f, "{} states in {:.1} s", self.states(), self.elapsed.as_secs_f64())?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "{fault}"))
    }
}
