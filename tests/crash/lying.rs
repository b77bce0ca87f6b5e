//! Power cuts on disks of which only flushed data is certain. [`crate::disk::flushes`] defines what such a
//! disk may have kept.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};

use flameholder::core::plan::steps::PlanStep;
use flameholder::core::state::journal::{JOURNAL, JournalIntent, JournalScope, TransactionState, VERSION};
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::tree::FileAttributes;
use flameholder::host::HostDisk;
use flameholder::host::systemd::service_port::NoServices;
use testbed::model::snapshot::LOCK;

use crate::bent::{Bend, Bent};
use crate::case::{self, BOOT, Case, Scenario};
use crate::crashes::for_each;
use crate::disk::effect::Screened;
use crate::disk::flushes::Unflushed;
use crate::disk::image::{Edit, Image, Number};
use crate::disk::{MemoryDisk, Unwatched, Watch};
use crate::explorer::{Explorer, Promise, Tally, Wrong, is_commit};
use crate::kinds::{self, VAR};

/// Directory of the lock and the journal.
const HOME: &str = "/var/lib/flameholder";

/// Data that is not yet durable when the change begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// No data.
    Clean,
    /// The directory of the journal, which the lock has just made.
    Fresh,
    /// The end of the last change's journal.
    Stale,
}

/// Observer that cuts the power at every edit and flush.
struct Cutting<'a> {
    explorer: &'a Explorer<'a>,
    promise: Cell<Promise>,
    unflushed: RefCell<Unflushed>,
    known: RefCell<HashSet<(u128, String)>>,
    /// Inode of the journal once its last line is written: a flush of it commits the change.
    committed: Cell<Option<Number>>,
}

impl<'a> Cutting<'a> {
    fn new(explorer: &'a Explorer<'a>, durable: &Image, promise: Promise) -> Self {
        Self {
            explorer,
            promise: Cell::new(promise),
            unflushed: RefCell::new(Unflushed::new(durable.clone())),
            known: RefCell::default(),
            committed: Cell::new(None),
        }
    }

    fn cut(&self) {
        let unflushed = self.unflushed.borrow();
        if self.known.borrow_mut().insert(unflushed.key()) {
            for disk in unflushed.disks() {
                self.explorer.reach(&disk, self.promise.get(), false);
            }
        }
    }
}

impl Watch for Cutting<'_> {
    fn edit(&self, before: &Image, edit: &Edit) {
        self.cut();
        self.unflushed.borrow_mut().edit(before, edit);
        if self.promise.get() == Promise::Old && is_commit(edit) {
            self.promise.set(Promise::Either);
            self.committed.set(edit.inode());
        }
    }

    fn flush(&self, _: &Image, number: Number) {
        self.cut();
        self.unflushed.borrow_mut().flush(number);
        if self.committed.get() == Some(number) {
            self.promise.set(Promise::New);
        }
    }
}

/// Take the lock, and make it if there is none, as the product does first.
fn lock(disk: &dyn HostDisk) {
    let (home, lock) = (ManagedPath::constant(HOME), ManagedPath::constant(&format!("/{LOCK}")));
    let given = |mode| FileAttributes { mode, uid: 0, gid: 0 };
    if disk.status(&home).expect("a look").is_none() {
        disk.make_directory(&home, given(0o700), None).expect("a directory");
    }
    if disk.status(&lock).expect("a look").is_none() {
        disk.create_file(&lock, b"", given(0o600), None).expect("a lock");
    }
}

/// The disk with the earlier content of the lock: losing the last holder's name does no harm.
fn with_lock(image: Image, case: &Case) -> Image {
    let lock = ManagedPath::constant(&format!("/{LOCK}"));
    let read = |image: &Image| MemoryDisk::new(image.clone(), &Unwatched).read(&lock, 64).expect("a look");
    match (read(&case.image), read(&image)) {
        (Some(wanted), Some(found)) if found.is_empty() => {
            case::on(&image, &Unwatched, |disk| disk.append(&lock, &wanted).expect("a lock")).1
        }
        _ => image,
    }
}

/// Durable disk when the change begins.
fn durable(case: &Case, start: Start) -> Image {
    let remove = |disk: &dyn HostDisk| {
        disk.remove_file(&ManagedPath::constant(&format!("/{LOCK}"))).expect("a lock");
        disk.remove_directory(&ManagedPath::constant(HOME)).expect("a directory");
    };
    match start {
        Start::Clean => case.image.clone(),
        Start::Fresh => case::on(&case.image, &Unwatched, remove).1,
        Start::Stale => {
            let journal = [stale(case).render(), TransactionState::Committed.render()].concat();
            let path = ManagedPath::constant(JOURNAL);
            let given = FileAttributes { mode: 0o600, uid: 0, gid: 0 };
            case::on(&case.image, &Unwatched, |disk| disk.create_file(&path, &journal, given, None)).1
        }
    }
}

/// Journal of a change that restored the pre-image which this one preserves again.
fn stale(case: &Case) -> JournalIntent {
    let kept = case.steps.iter().filter_map(|step| match step {
        PlanStep::Preserve { original, .. } => Some(original.clone()),
        _ => None,
    });
    JournalIntent {
        version: VERSION,
        boot_id: BOOT.into(),
        scope: JournalScope::Deployment,
        current: Some("the one before".into()),
        target: case.current.clone(),
        staging: ["/etc/.flameholder.d", "/var/.flameholder.d"].map(ManagedPath::constant).to_vec(),
        staging_inodes: Vec::new(),
        volatile_staging: Vec::new(),
        moves: Vec::new(),
        discards: kept.collect(),
        actions: Vec::new(),
    }
}

/// Apply the change on such a disk, and recover from every disk that a power cut can leave.
pub(crate) fn cut_everywhere(case: &Case, start: Start, bend: Bend) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, bend);
    let mut image = durable(case, start);
    let watch = Cutting::new(&explorer, &image, Promise::Old);
    image.spare();
    let (result, last) = case::on(&image, &watch, |disk| {
        lock(disk);
        if start == Start::Stale {
            disk.remove_file(&ManagedPath::constant(JOURNAL)).expect("a journal");
        }
        explorer.apply(disk, &NoServices)
    });
    if let Err(error) = result {
        explorer.complain(Wrong::Ended, &case::said(&error));
    }
    watch.promise.set(Promise::New);
    watch.cut();
    explorer.expect(&with_lock(last, case), Promise::New, "the end of the run");
    let edits = watch.known.borrow().len();
    while let Some((image, promise)) = explorer.next() {
        // One complaint is enough for an engine with a planted fault, and a few for any other.
        if explorer.complaints().len() > if bend == Bend::Straight { 20 } else { 0 } {
            break;
        }
        recover(&explorer, &image, promise);
    }
    (Tally { edits, ..explorer.tally() }, explorer.complaints())
}

fn recover(explorer: &Explorer<'_>, image: &Image, promise: Promise) {
    let run = |watch: &dyn Watch| {
        let screen = Bent::new(explorer.bend, true);
        let mut image = image.clone();
        image.spare();
        case::on(&image, watch, |disk| {
            lock(disk);
            case::recover(&Screened { disk, screen: &screen }, &NoServices)
        })
    };
    let (result, last) = run(&Unwatched);
    if let Err(error) = result {
        return explorer.complain(Wrong::Refused, &error);
    }
    let last = with_lock(last, explorer.case);
    explorer.expect(&last, promise, "recovery");
    // Without a promise the first recovery decides, and later ones must agree.
    let Some(promise) = explorer.outcome(&last) else { return };
    let watch = Cutting::new(explorer, image, promise);
    // The same recovery, now with the power cut at every moment.
    drop(run(&watch));
    watch.cut();
}

/// One small scenario of every kind, small enough to be exhausted at every change; all scenarios in
/// exhaustive mode.
fn some(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    const SMALL: [&str; 9] = [
        "new file",
        "changed file",
        "vendor file restored",
        "pre-image preserved",
        "pre-image given back",
        "file to directory",
        "directories get attributes",
        "unit enabled",
        "file in /var changed",
    ];
    let is_small = |scenario: &Scenario| SMALL.iter().any(|small| scenario.name.contains(small));
    scenarios.into_iter().filter(|scenario| testbed::is_exhaustive() || is_small(scenario)).collect()
}

#[test]
fn power_cuts_at_each_kind_of_change() {
    for_each(some(kinds::scenarios(VAR)), |case| cut_everywhere(case, Start::Clean, Bend::Straight));
}

#[test]
fn power_cuts_at_each_kind_of_change_on_one_file_system() {
    let scenarios = some(kinds::scenarios(&[])).into_iter().step_by(4).collect();
    for_each(scenarios, |case| cut_everywhere(case, Start::Clean, Bend::Straight));
}

#[test]
fn power_cuts_at_the_first_config() {
    // The small scenarios differ in names only: most of the work is the directories of the record.
    let first = kinds::first(VAR)
        .into_iter()
        .filter(|scenario| testbed::is_exhaustive() || scenario.name == "first: new file");
    for_each(first.collect(), |case| cut_everywhere(case, Start::Fresh, Bend::Straight));
}

#[test]
fn power_cuts_before_the_last_journal_is_durably_removed() {
    let scenarios = some(kinds::scenarios(VAR)).into_iter().step_by(3).collect();
    for_each(scenarios, |case| cut_everywhere(case, Start::Stale, Bend::Straight));
}
