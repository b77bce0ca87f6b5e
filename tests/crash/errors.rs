//! Failing disks and services: each act fails with each error of a real host, once, twice, or from some act
//! on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use flameholder::core::enablement::UnitName;
use flameholder::core::state::service_action::ServiceAction;
use flameholder::host::systemd::service_port::{NoServices, ServiceControl, ServiceError};
use flameholder::host::{FileOperation, HostDisk, HostError};
use flameholder::transaction::engine::apply::{ApplyError, StepError};
use memory_disk::{Image, Unwatched};
use rustix::io::Errno;

use crate::bent::Bend;
use crate::case::{self, Case, Scenario};
use crate::crashes::for_each;
use crate::disk::effect::{Effect, Screen, Screened};
use crate::explorer::{Explorer, Passing, Promise, Tally, Wrong};
use crate::kinds::{self, VAR};

const ERRORS: [Errno; 6] = [Errno::IO, Errno::NOSPC, Errno::ROFS, Errno::DQUOT, Errno::ACCESS, Errno::MFILE];

/// Disk that fails at some acts.
struct Failing<'a> {
    /// Predicate over the number of the act, counted from 0.
    fails: &'a dyn Fn(usize) -> bool,
    errno: Errno,
    /// True if a failing write writes half of its bytes.
    halfway: bool,
    count: Cell<usize>,
    /// Number of failures so far.
    failed: Cell<usize>,
}

impl<'a> Failing<'a> {
    fn new(errno: Errno, halfway: bool, fails: &'a dyn Fn(usize) -> bool) -> Self {
        Self { fails, errno, halfway, count: Cell::new(0), failed: Cell::new(0) }
    }
}

impl Screen for Failing<'_> {
    fn act(&self, disk: &dyn HostDisk, effect: Effect) -> Result<(), HostError> {
        let number = self.count.replace(self.count.get() + 1);
        if !(self.fails)(number) {
            return effect.perform(disk);
        }
        if let Some(half) = effect.half().filter(|_| self.halfway) {
            half.perform(disk)?;
        }
        self.failed.set(self.failed.get() + 1);
        let path = effect.path().map_or("/", |path| path.as_str());
        Err(HostError::new(FileOperation::Stage, path, self.errno))
    }
}

/// Result of a run on a failing disk.
struct Outcome {
    result: Result<(), ApplyError>,
    image: Image,
    failed: usize,
}

fn attempt(case: &Case, screen: &Failing<'_>, explorer: Option<&Explorer<'_>>) -> Outcome {
    let run = |disk: &dyn HostDisk| case.apply(&Screened { disk, screen }, &NoServices);
    let (result, image) = match explorer {
        // A caller that gets an error has no promise about the tree yet.
        Some(explorer) => {
            let promise = Cell::new(Promise::Either);
            case::on(&case.image, &Passing { explorer, promise, commits: false, judges: true }, run)
        }
        None => case::on(&case.image, &Unwatched, run),
    };
    Outcome { result, image, failed: screen.failed.get() }
}

fn recovered(image: &Image) -> (Result<(), String>, Image) {
    case::on(image, &Unwatched, |disk| case::recover(disk, &NoServices).map(drop))
}

/// Let each act fail once: afterwards the tree is the old one, or the new one if the change was committed.
fn each_once(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    for errno in ERRORS {
        for halfway in [false, true] {
            for at in 0.. {
                let fails = |number| number == at;
                let screen = Failing::new(errno, halfway, &fails);
                // Kills after an error do not depend on the error: explore them for one.
                let outcome = attempt(case, &screen, (errno == Errno::IO).then_some(&explorer));
                if outcome.failed == 0 {
                    assert!(outcome.result.is_ok() && at > 10, "{}: {at} acts", case.name);
                    break;
                }
                check_one(&explorer, &outcome, &format!("act {at} fails with {errno}"));
            }
        }
    }
    explorer.recover_all();
    (edits(&explorer), explorer.complaints())
}

fn check_one(explorer: &Explorer<'_>, Outcome { result, image, .. }: &Outcome, what: &str) {
    match result {
        Err(ApplyError::Undone(_)) => explorer.expect(image, Promise::Old, what),
        Err(ApplyError::NotCleanedUp(_)) => {
            let (done, image) = recovered(image);
            done.unwrap_or_else(|error| explorer.complain(Wrong::Refused, &format!("{what}: {error}")));
            explorer.expect(&image, Promise::New, what);
        }
        other => explorer.complain(Wrong::Ended, &format!("{what}: {other:?}")),
    }
}

/// Let the disk fail twice, or from an act on until it is repaired: the reported result stays true.
fn again_and_for_good(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    for first in 0.. {
        let for_good = |number: usize| number >= first;
        if !check_several(&explorer, &for_good, &format!("acts from {first} on fail")) {
            break;
        }
        for second in first + 1.. {
            let twice = |number: usize| number == first || number == second;
            if !check_several(&explorer, &twice, &format!("acts {first} and {second} fail")) {
                break;
            }
        }
    }
    (edits(&explorer), explorer.complaints())
}

/// Check a run that may fail several times; returns false if it failed less than twice.
fn check_several(explorer: &Explorer<'_>, fails: &dyn Fn(usize) -> bool, what: &str) -> bool {
    let mut all = true;
    for halfway in [false, true] {
        let screen = Failing::new(Errno::IO, halfway, fails);
        let outcome = attempt(explorer.case, &screen, None);
        explorer.reach(&outcome.image, Promise::Either, true);
        let (done, image) = recovered(&outcome.image);
        done.unwrap_or_else(|error| explorer.complain(Wrong::Refused, &format!("{what}: {error}")));
        let promise = match outcome.result {
            Err(ApplyError::Undone(_)) => Promise::Old,
            Err(ApplyError::NotCleanedUp(_)) | Ok(()) => Promise::New,
            // No promise was made: the journal may have the line that commits the change.
            Err(ApplyError::NotUndone { .. }) => Promise::Either,
        };
        explorer.expect(&image, promise, what);
        all &= outcome.failed >= 2;
    }
    all
}

fn edits(explorer: &Explorer<'_>) -> Tally {
    let tally = explorer.tally();
    Tally { edits: tally.states, ..tally }
}

/// Service manager that records calls and fails at some.
struct Recording<'a> {
    asked: RefCell<Vec<ServiceAction>>,
    fails: &'a dyn Fn(usize) -> bool,
}

impl std::fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl ServiceControl for Recording<'_> {
    fn perform(&self, action: &ServiceAction) -> Result<(), ServiceError> {
        let number = self.asked.borrow().len();
        self.asked.borrow_mut().push(action.clone());
        if !(self.fails)(number) {
            return Ok(());
        }
        Err(ServiceError::Failed { action: action.clone(), result: Some("exit-code".to_owned()) })
    }

    fn stop_commands(&self, _: &str) -> Option<Vec<Vec<String>>> {
        None
    }
}

fn actions() -> Vec<ServiceAction> {
    let unit = |name: &str| UnitName::parse(&format!("{name}.service")).unwrap();
    vec![
        ServiceAction::DaemonReload,
        ServiceAction::Restart { unit: unit("a") },
        ServiceAction::Reload { unit: unit("b") },
    ]
}

fn with_actions() -> Vec<Scenario> {
    let scenarios = kinds::scenarios(VAR).into_iter();
    let some =
        scenarios.filter(|scenario| ["several files", "unit made and enabled"].contains(&&*scenario.name));
    some.map(|scenario| Scenario { actions: actions(), ..scenario }).collect()
}

/// Let each service action fail: the change is undone, and the actions before it run again for the old files.
fn each_service(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    for at in 0..case.actions.len() {
        for again in [None, Some(at + 1), Some(2 * at + 1)] {
            let fails = |number| number == at || Some(number) == again;
            let services = Recording { asked: RefCell::default(), fails: &fails };
            let promise = Cell::new(Promise::Either);
            let watch = Passing { explorer: &explorer, promise, commits: false, judges: true };
            let (result, image) = case::on(&case.image, &watch, |disk| case.apply(disk, &services));
            let what = format!("service {at} fails, then {again:?}");
            let is_right = match again {
                None => matches!(result, Err(ApplyError::Undone(StepError::Service(_)))),
                Some(_) => matches!(result, Err(ApplyError::NotUndone { failed: StepError::Service(_), .. })),
            };
            if !is_right {
                explorer.complain(Wrong::Ended, &format!("{what}: {result:?}"));
            }
            let begun = &case.actions[..=at];
            let taken_up = again.map_or(begun.len(), |again| again - at);
            let wanted = [begun, &begun[..taken_up]].concat();
            if *services.asked.borrow() != wanted {
                explorer.complain(Wrong::Ended, &format!("{what}: {:?} were asked", services.asked.borrow()));
            }
            explorer.expect(&image, Promise::Old, &what);
        }
    }
    explorer.recover_all();
    (edits(&explorer), explorer.complaints())
}

/// Killed process: after the given number of acts no act or read succeeds.
struct Stopped {
    left: Cell<usize>,
}

impl Screen for Stopped {
    fn act(&self, disk: &dyn HostDisk, effect: Effect) -> Result<(), HostError> {
        self.look("")?;
        self.left.set(self.left.get() - 1);
        effect.perform(disk)
    }

    fn look(&self, path: &str) -> Result<(), HostError> {
        if self.left.get() > 0 { Ok(()) } else { Err(HostError::new(FileOperation::Read, path, Errno::IO)) }
    }
}

/// Kill the process after each act: service actions that had begun are run again, in order, unless the change
/// is committed. A killed process leaves no disk that was not explored.
fn each_kill(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    explorer.run();
    let known = explorer.tally().states;
    for acts in 1.. {
        let screen = Stopped { left: Cell::new(acts) };
        let services = Recording { asked: RefCell::default(), fails: &|_| false };
        let run = |disk: &dyn HostDisk| case.apply(&Screened { disk, screen: &screen }, &services);
        let (_, image) = case::on(&case.image, &Unwatched, run);
        let is_over = screen.left.get() > 0;
        let known_as = [Promise::Old, Promise::New].map(|promise| explorer.knows(&image, promise));
        assert!(known_as.contains(&true), "{}: exploration missed the disk after {acts} acts", case.name);
        let asked = services.asked.take();
        let (_, recovered) = case::on(&image, &Unwatched, |disk| case::recover(disk, &services));
        let again = services.asked.take();
        let is_new = explorer.outcome(&recovered) == Some(Promise::New);
        let is_right = if is_new {
            again.is_empty()
        } else {
            again.starts_with(&asked) && case.actions.starts_with(&again)
        };
        if !is_right {
            explorer.complain(Wrong::Ended, &format!("after {acts} acts, {asked:?}, then {again:?}"));
        }
        if is_over {
            break;
        }
    }
    assert_eq!(explorer.tally().states, known, "reading adds no states");
    explorer.recover_all();
    (explorer.tally(), explorer.complaints())
}

#[test]
fn each_act_fails_once() {
    let every = if testbed::is_exhaustive() { 1 } else { 3 };
    for_each(kinds::scenarios(VAR).into_iter().step_by(every).collect(), each_once);
}

#[test]
fn pairs_of_acts_fail_and_all_acts_from_one_on() {
    let scenarios = kinds::scenarios(VAR).into_iter();
    let few = scenarios.step_by(if testbed::is_exhaustive() { 1 } else { 8 });
    for_each(few.collect(), again_and_for_good);
}

#[test]
fn each_service_action_fails() {
    for_each(with_actions(), each_service);
}

#[test]
fn service_actions_run_again_after_a_kill() {
    for_each(with_actions(), each_kill);
}
