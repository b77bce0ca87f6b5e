//! Power cuts on disks of which only flushed data is certain. [`memory_disk::Unflushed`] defines what such a
//! disk may have kept.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};

use flameholder::core::plan::steps::PlanStep;
use flameholder::core::state::journal::{JOURNAL, JournalIntent, JournalScope, TransactionState, VERSION};
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::tree::FileAttributes;
use flameholder::host::HostDisk;
use flameholder::host::systemd::service_port::NoServices;
use flameholder::transaction::engine::recover::RecoveryOutcome;
use memory_disk::{Edit, Image, MemoryDisk, Number, Unflushed, UnflushedKey, Unwatched, Watch};
use testbed::model::snapshot::LOCK;

use crate::bent::{Bend, Bent};
use crate::case::{self, BOOT, Case, Scenario};
use crate::crashes::for_each;
use crate::disk::effect::Screened;
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

/// Most steps of a change whose recovery is interrupted until no new disk turns up.
const MOST_STEPS: usize = 9;

/// Number of power cuts of one change and its recoveries, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutsInARow {
    /// As many as lead to a new disk.
    Any,
    /// One of the change, and one of the recovery.
    Two,
}

/// Moments at which the power is cut, of the change and of all its recoveries.
struct Moments {
    /// Most pending edits that are tried in every combination.
    every: usize,
    /// Earlier moments: most recoveries come to a disk that another one came to, and go on alike.
    earlier: RefCell<HashSet<(UnflushedKey, Promise)>>,
}

impl Moments {
    fn new(cuts: CutsInARow) -> Self {
        let every = if cuts == CutsInARow::Any && testbed::is_exhaustive() { 12 } else { 6 };
        Self { every, earlier: RefCell::default() }
    }

    /// Disks that a power cut can leave, unless there was an equal moment before.
    fn disks(&self, unflushed: &Unflushed, promise: Promise) -> Vec<Image> {
        let is_new = self.earlier.borrow_mut().insert((unflushed.key(), promise));
        if is_new { unflushed.disks(self.every) } else { Vec::new() }
    }
}

/// Observer that cuts the power at every edit and flush.
struct Cutting<'a> {
    explorer: &'a Explorer<'a>,
    promise: Cell<Promise>,
    unflushed: RefCell<Unflushed>,
    moments: &'a Moments,
    /// Inode of the journal once its last line is written: a flush of it commits the change.
    committed: Cell<Option<Number>>,
}

impl<'a> Cutting<'a> {
    fn new(explorer: &'a Explorer<'a>, durable: &Image, promise: Promise, moments: &'a Moments) -> Self {
        Self {
            explorer,
            promise: Cell::new(promise),
            unflushed: RefCell::new(Unflushed::new(durable.clone())),
            moments,
            committed: Cell::new(None),
        }
    }

    fn cut(&self) {
        let promise = self.promise.get();
        for disk in self.moments.disks(&self.unflushed.borrow(), promise) {
            self.explorer.reach(&disk, promise, false);
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

/// Apply the change on such a disk, and recover from every disk that power cuts can leave.
pub(crate) fn cut_everywhere(case: &Case, start: Start, bend: Bend) -> (Tally, BTreeSet<(Wrong, String)>) {
    cut_in_a_row(case, start, bend, CutsInARow::Any)
}

fn cut_in_a_row(
    case: &Case,
    start: Start,
    bend: Bend,
    cuts: CutsInARow,
) -> (Tally, BTreeSet<(Wrong, String)>) {
    let (explorer, moments) = (Explorer::new(case, bend), Moments::new(cuts));
    let mut image = durable(case, start);
    let watch = Cutting::new(&explorer, &image, Promise::Old, &moments);
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
    let edits = moments.earlier.borrow().len();
    let mut after_one = explorer.take_all();
    // One complaint is enough for an engine with a planted fault, and a few for any other.
    let most = if bend == Bend::Straight { 20 } else { 0 };
    let mut next = || {
        let deeper = explorer.next().map(|disk| (disk, cuts == CutsInARow::Any));
        deeper.or_else(|| after_one.pop().map(|disk| (disk, true)))
    };
    while explorer.complaints().len() <= most
        && let Some(((image, promise), is_cut)) = next()
    {
        let decided = recover(&explorer, &image, promise);
        if is_cut && let Some(decided) = decided {
            cut_recovery(&explorer, &image, decided, &moments);
        }
    }
    (Tally { edits, ..explorer.tally() }, explorer.complaints())
}

/// Recover, and return the tree that recovery leads to, if it leads to one of the two.
fn recover(explorer: &Explorer<'_>, image: &Image, promise: Promise) -> Option<Promise> {
    let (result, last) = run_recovery(explorer, image, &Unwatched);
    if let Err(error) = result {
        explorer.complain(Wrong::Refused, &error);
        return None;
    }
    let last = with_lock(last, explorer.case);
    explorer.expect(&last, promise, "recovery");
    explorer.outcome(&last)
}

/// Recover with the power cut at every moment. The outcome of the recovery before binds it.
fn cut_recovery(explorer: &Explorer<'_>, image: &Image, decided: Promise, moments: &Moments) {
    let watch = Cutting::new(explorer, image, decided, moments);
    drop(run_recovery(explorer, image, &watch));
    watch.cut();
}

fn run_recovery(
    explorer: &Explorer<'_>,
    image: &Image,
    watch: &dyn Watch,
) -> (Result<RecoveryOutcome, String>, Image) {
    let screen = Bent::new(explorer.bend, true);
    let mut image = image.clone();
    image.spare();
    case::on(&image, watch, |disk| {
        lock(disk);
        case::recover(&Screened { disk, screen: &screen }, &NoServices)
    })
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

/// Return true if the power is cut in each recovery of a change. The disks multiply with each step: of a longer
/// change, two power cuts leave up to a million, and more cannot be exhausted.
fn is_short(scenario: &Scenario) -> bool {
    Case::of(scenario).steps.len() <= MOST_STEPS
}

#[test]
fn power_cuts_at_the_first_config() {
    // The small scenarios differ in names only: most of the work is the directories of the record.
    let first = kinds::first(VAR)
        .into_iter()
        .filter(|scenario| testbed::is_exhaustive() || scenario.name == "first: new file");
    for_each(first.filter(is_short).collect(), |case| cut_everywhere(case, Start::Fresh, Bend::Straight));
}

#[test]
#[ignore = "exhaustive: the steps are those of shorter configs"]
fn power_cuts_at_a_long_first_config() {
    let first = kinds::first(VAR).into_iter().filter(|scenario| !is_short(scenario));
    for_each(first.collect(), |case| cut_in_a_row(case, Start::Fresh, Bend::Straight, CutsInARow::Two));
}

#[test]
fn power_cuts_before_the_last_journal_is_durably_removed() {
    let scenarios = some(kinds::scenarios(VAR)).into_iter().step_by(3).collect();
    for_each(scenarios, |case| cut_everywhere(case, Start::Stale, Bend::Straight));
}
