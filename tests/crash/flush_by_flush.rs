//! Every flush of the engine, dropped one at a time: the power cuts must notice each that is needed.

use std::cell::RefCell;

use flameholder::host::systemd::service_port::NoServices;
use flameholder::host::{HostDisk, HostError};
use memory_disk::{MemoryDisk, Unwatched};

use crate::bent::Bend;
use crate::case::Case;
use crate::crashes::require_tree;
use crate::disk::effect::{Effect, Screen, Screened};
use crate::kinds::{self, VAR};
use crate::lying::{Start, cut_everywhere};

/// Paths that are flushed, in order.
struct Listing(RefCell<Vec<String>>);

impl Screen for Listing {
    fn act(&self, disk: &dyn HostDisk, effect: Effect) -> Result<(), HostError> {
        if let Effect::Sync { path } = &effect {
            self.0.borrow_mut().push(path.as_ref().map_or("/".to_owned(), ToString::to_string));
        }
        effect.perform(disk)
    }
}

fn case(kind: &str) -> Case {
    let scenarios = [kinds::scenarios(VAR), kinds::first(VAR)].concat();
    let scenario = scenarios.into_iter().find(|scenario| scenario.name == kind);
    Case::of(&scenario.expect("a kind of this name"))
}

/// Paths that a change flushes, in order.
fn flushed(case: &Case) -> Vec<String> {
    let listing = Listing(RefCell::default());
    let disk = MemoryDisk::new(case.image.clone(), &Unwatched);
    case.apply(&Screened { disk: &disk, screen: &listing }, &NoServices).expect("a change");
    listing.0.take()
}

/// Paths that a change flushes; true if the power cuts notice that the flush is dropped.
fn flushes(case: &Case) -> Vec<(String, bool)> {
    let paths = flushed(case).into_iter().enumerate();
    paths.map(|(number, path)| (path, is_missed(case, Start::Clean, Bend::ForgetsFlush(number)))).collect()
}

fn is_missed(case: &Case, start: Start, bend: Bend) -> bool {
    let (tally, wrong) = cut_everywhere(case, start, bend);
    println!(
        "{:20} {bend:?}: {:?} after {} crashes",
        case.name,
        wrong.first().map(|(kind, _)| kind),
        tally.points
    );
    !wrong.is_empty()
}

#[test]
fn each_needed_flush_of_a_change_is_noticed_if_dropped() {
    require_tree();
    let needed = |path: &str| (path.to_owned(), true);
    let spare = |path: &str| (path.to_owned(), false);
    let expected = [
        needed("/etc/.flameholder.d/000000"),
        needed("/etc/.flameholder.d/000001"),
        needed("/etc/.flameholder.d/000002"),
        needed("/var/lib/flameholder/journal.new"),
        needed("/etc"),
        // A lost name of a slot prevents the act that would have used it, so there is nothing to undo. The
        // directory is flushed all the same, together with the others: a journal whose paths exist is worth
        // one flush among many.
        spare("/etc/.flameholder.d"),
        needed("/var/lib/flameholder"),
        needed("/etc"),
        needed("/etc/flameholder"),
        needed("/etc/machine-config-daemon"),
        needed("/var/lib/flameholder/journal"),
        // A staging directory that reappears without its journal is removed by the next command.
        spare("/etc"),
    ];
    assert_eq!(flushes(&case("changed file")), expected);
}

#[test]
fn flush_above_a_new_journal_is_noticed_if_dropped() {
    require_tree();
    let case = case("first: new file");
    let number = flushed(&case).iter().position(|path| path == "/var/lib").expect("/var/lib is flushed");
    assert!(is_missed(&case, Start::Fresh, Bend::ForgetsFlush(number)));
}

#[test]
fn restored_pre_image_that_remains_in_the_store_is_noticed() {
    require_tree();
    let case = case("pre-image given back");
    let last = flushes(&case).pop();
    assert_eq!(last, Some(("/etc/flameholder/originals".to_owned(), true)));
}

#[test]
fn each_needed_flush_of_recovery_is_noticed_if_dropped() {
    require_tree();
    let case = case("changed file");
    let missed = (0..5).map(|number| is_missed(&case, Start::Clean, Bend::RecoversWithoutFlush(number)));
    // The flushes of the three directories with renames, the flush of the removed journal's directory, and
    // that of the staging directory, which the next command removes without a journal as well.
    assert_eq!(missed.collect::<Vec<_>>(), [true, true, true, true, false]);
}
