//! Every disk that a crash can leave, and the result of recovery from each, crashes of recovery included.
//!
//! A run is executed once. A killed process changes nothing any more, so the disk that it would leave is the
//! disk at that moment, and each such disk is recorded in passing. Recovery then runs in the same way from
//! each new disk, until there is no new one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};

use flameholder::host::HostDisk;
use flameholder::host::systemd::service_port::{NoServices, ServiceControl};
use flameholder::transaction::engine::apply::ApplyError;
use flameholder::transaction::engine::recover::RecoveryOutcome;
use memory_disk::{Edit, Image, Number, Unwatched, Watch};

use crate::bent::{Bend, Bent};
use crate::case::{self, Case};
use crate::disk::effect::Screened;
use crate::disk::reader::Reader;
use crate::disk::sight;

/// Tree that a crash must lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Promise {
    Old,
    New,
    /// Old or new: no result was reported yet.
    Either,
}

/// Kind of a complaint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// A reader saw a tree with a mixed or dangling path during the change.
    Read,
    /// The recovered tree is neither the old nor the new one.
    Mixed,
    /// The recovered tree is not the promised one.
    Broken,
    /// Recovery refuses.
    Refused,
    /// A second recovery changes something.
    Restless,
    /// A run ends with a wrong result.
    Ended,
}

/// Amount of exploration.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Edits of the uninterrupted run.
    pub edits: usize,
    /// Interruptions, those of recovery included.
    pub points: usize,
    /// Distinct disks.
    pub states: usize,
}

/// Search through all disks.
pub(crate) struct Explorer<'a> {
    pub case: &'a Case,
    reader: Reader,
    /// Planted fault of the engine.
    pub bend: Bend,
    seen: RefCell<HashSet<(u128, Promise)>>,
    pending: RefCell<Vec<(Image, Promise)>>,
    judged: RefCell<HashMap<u128, Option<Promise>>>,
    /// Disks after recovery.
    ends: RefCell<HashSet<u128>>,
    complaints: RefCell<BTreeSet<(Wrong, String)>>,
    tally: Cell<Tally>,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(case: &'a Case, bend: Bend) -> Self {
        Self {
            case,
            reader: Reader::new(case),
            bend,
            seen: RefCell::default(),
            pending: RefCell::default(),
            judged: RefCell::default(),
            ends: RefCell::default(),
            complaints: RefCell::default(),
            tally: Cell::default(),
        }
    }

    /// Apply the change and record every disk on the way.
    pub(crate) fn run(&self) {
        let watch = Passing { explorer: self, promise: Cell::new(Promise::Old), commits: true, judges: true };
        let (result, last) = case::on(&self.case.image, &watch, |disk| self.apply(disk, &NoServices));
        let edits = self.tally.get().points;
        self.tally.set(Tally { edits, ..self.tally.get() });
        if let Err(error) = result {
            self.complain(Wrong::Ended, &case::said(&error));
        }
        self.expect(&last, Promise::New, "the end of the run");
        self.reach(&last, Promise::New, true);
    }

    /// Apply the change with this engine.
    pub(crate) fn apply(&self, disk: &dyn HostDisk, services: &dyn ServiceControl) -> Result<(), ApplyError> {
        let screen = Bent::new(self.bend, false);
        self.case.apply(&Screened { disk, screen: &screen }, services)
    }

    /// Recover from every recorded disk, and from the disks on the way of recovery.
    pub(crate) fn recover_all(&self) {
        while let Some((image, promise)) = self.next() {
            let promise = match promise {
                // The outcome of the first recovery binds every interruption of it.
                Promise::Either => {
                    let (_, last) = self.recovered(&image, &Unwatched);
                    let Some(promise) = self.outcome(&last) else {
                        self.expect(&last, Promise::Either, "recovery");
                        continue;
                    };
                    promise
                }
                promise => promise,
            };
            let watch = Passing { explorer: self, promise: Cell::new(promise), commits: false, judges: true };
            let (result, last) = self.recovered(&image, &watch);
            match result {
                Ok(_) => self.expect(&last, promise, "recovery"),
                Err(error) => self.complain(Wrong::Refused, &error),
            }
            if self.ends.borrow_mut().insert(last.hash()) {
                self.ensure_at_rest(&last);
            }
        }
    }

    /// Complain if there is anything left to recover.
    fn ensure_at_rest(&self, image: &Image) {
        let (again, after) = self.recovered(image, &Unwatched);
        if after.hash() != image.hash() || !matches!(again, Ok(RecoveryOutcome::Nothing)) {
            self.complain(Wrong::Restless, &format!("recovered again: {again:?}"));
        }
    }

    /// Record a disk. It is checked for readers of the live tree if `is_read`.
    pub(crate) fn reach(&self, image: &Image, promise: Promise, is_read: bool) {
        let mut tally = self.tally.get();
        tally.points += 1;
        if self.seen.borrow_mut().insert((image.hash(), promise)) {
            tally.states += 1;
            if is_read {
                self.reader.complaints(image).iter().for_each(|wrong| self.complain(Wrong::Read, wrong));
            }
            self.pending.borrow_mut().push((image.clone(), promise));
        }
        self.tally.set(tally);
    }

    /// Replace each recorded disk by a copy of its tree.
    pub(crate) fn copy_all(&self) {
        for (image, promise) in self.pending.take() {
            self.reach(&image.copied(), promise, false);
        }
    }

    /// A recorded disk from which recovery has not run yet.
    pub(crate) fn next(&self) -> Option<(Image, Promise)> {
        self.pending.borrow_mut().pop()
    }

    /// All recorded disks from which recovery has not run yet.
    pub(crate) fn take_all(&self) -> Vec<(Image, Promise)> {
        self.pending.take()
    }

    /// True if the disk was recorded with this promise.
    pub(crate) fn knows(&self, image: &Image, promise: Promise) -> bool {
        self.seen.borrow().contains(&(image.hash(), promise))
    }

    fn recovered(&self, image: &Image, watch: &dyn Watch) -> (Result<RecoveryOutcome, String>, Image) {
        let screen = Bent::new(self.bend, true);
        case::on(image, watch, |disk| case::recover(&Screened { disk, screen: &screen }, &NoServices))
    }

    /// The tree that `image` equals: old, new or neither.
    pub(crate) fn outcome(&self, image: &Image) -> Option<Promise> {
        *self.judged.borrow_mut().entry(image.hash()).or_insert_with(|| {
            let is = sight::see(image);
            let same = |side: &sight::Sight| sight::differences(&is, side).is_empty();
            let sides = [(&self.case.old, Promise::Old), (&self.case.new, Promise::New)];
            sides.into_iter().find(|(side, _)| same(side)).map(|(_, promise)| promise)
        })
    }

    /// Complain unless `image` is the promised tree, whole and with nothing beside it.
    pub(crate) fn expect(&self, image: &Image, promise: Promise, after: &str) {
        match self.outcome(image) {
            Some(is) if promise == Promise::Either || is == promise => {}
            Some(is) => self
                .complain(Wrong::Broken, &format!("after {after} the tree is {is:?}, promised {promise:?}")),
            None => {
                let side = if promise == Promise::New { &self.case.new } else { &self.case.old };
                let wrong = sight::differences(&sight::see(image), side);
                let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
                self.complain(Wrong::Mixed, &format!("after {after}, promised {promise:?}: {shown}"));
            }
        }
    }

    pub(crate) fn complain(&self, wrong: Wrong, what: &str) {
        self.complaints.borrow_mut().insert((wrong, format!("{}: {what}", self.case.name)));
    }

    /// Distinct complaints.
    pub(crate) fn complaints(&self) -> BTreeSet<(Wrong, String)> {
        self.complaints.borrow().clone()
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally.get()
    }
}

/// Observer that interrupts at every edit, and within those that write.
pub(crate) struct Passing<'a> {
    pub explorer: &'a Explorer<'a>,
    pub promise: Cell<Promise>,
    /// True if the journal's commit line is a promise.
    pub commits: bool,
    pub judges: bool,
}

impl Watch for Passing<'_> {
    fn edit(&self, before: &Image, edit: &Edit) {
        self.explorer.reach(before, self.promise.get(), self.judges);
        if let Edit::Extend { number, bytes } = edit {
            for cut in [bytes.len() / 2, bytes.len() - 1] {
                let mut torn = before.clone();
                torn.apply(&Edit::Extend { number: *number, bytes: bytes[..cut].into() });
                self.explorer.reach(&torn, self.promise.get(), self.judges);
            }
        }
        if self.commits && is_commit(edit) {
            self.promise.set(Promise::New);
        }
    }

    fn flush(&self, _: &Image, _: Number) {}
}

/// True if the edit appends the commit line to the journal.
pub(crate) fn is_commit(edit: &Edit) -> bool {
    const COMMITTED: &[u8] = b"\"state\":\"committed\"";
    let says = |bytes: &[u8]| bytes.windows(COMMITTED.len()).any(|window| window == COMMITTED);
    matches!(edit, Edit::Extend { bytes, .. } if bytes.len() < 100 && says(bytes))
}
