//! Kills after every edit, of the change and of its recovery.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use testbed::model::pairs::{fixtures, rendered};

use crate::bent::Bend;
use crate::case::{Case, Scenario};
use crate::explorer::{Explorer, Tally, Wrong};
use crate::kinds::{self, VAR};

/// Panics if the model's tree cannot be built.
pub(crate) fn require_tree() {
    testbed::preconditions::require_root();
    testbed::preconditions::require_installed(&["systemctl"]);
}

/// Explore every scenario, or the one that `FLAMEHOLDER_SCENARIO` names, in parallel, and fail with all
/// complaints at once.
pub(crate) fn for_each(
    scenarios: Vec<Scenario>,
    explore: impl Fn(&Case) -> (Tally, BTreeSet<(Wrong, String)>) + Sync,
) {
    for_each_case(scenarios, Case::of, explore);
}

/// Explore cases that are built by `build`.
pub(crate) fn for_each_case(
    mut scenarios: Vec<Scenario>,
    build: impl Fn(&Scenario) -> Case + Sync,
    explore: impl Fn(&Case) -> (Tally, BTreeSet<(Wrong, String)>) + Sync,
) {
    require_tree();
    let wanted = std::env::var("FLAMEHOLDER_SCENARIO").ok();
    scenarios.retain(|scenario| wanted.as_ref().is_none_or(|wanted| scenario.name == *wanted));
    let (queue, complaints) = (Mutex::new(scenarios), Mutex::new(BTreeSet::new()));
    let work = || {
        loop {
            let next = queue.lock().expect("no poison").pop();
            let Some(scenario) = next else { break };
            let case = build(&scenario);
            let (tally, wrong) = explore(&case);
            let Tally { edits, points, states } = tally;
            println!("{:55} {edits:5} edits {points:8} crashes {states:7} states", case.name);
            assert!(edits > 0 && states > edits / 2, "{} was not explored: {tally:?}", case.name);
            complaints.lock().expect("no poison").extend(wrong);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let complaints = complaints.into_inner().expect("no poison");
    let shown: Vec<String> = complaints.iter().map(|(wrong, what)| format!("{wrong:?}: {what}")).collect();
    assert!(shown.is_empty(), "{} complaints:\n{}", shown.len(), shown.join("\n"));
}

/// Explore every disk that a kill can leave.
pub(crate) fn explore(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    explorer.run();
    explorer.recover_all();
    (explorer.tally(), explorer.complaints())
}

/// Explore copies of every disk that a kill can leave, such as a backup of a running host.
fn explore_copies(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    explorer.run();
    explorer.copy_all();
    explorer.recover_all();
    (explorer.tally(), explorer.complaints())
}

#[test]
fn copies_after_kills_at_each_kind_of_change() {
    for_each(kinds::scenarios(VAR), explore_copies);
}

#[test]
fn kills_at_each_kind_of_change_with_var_on_its_own_file_system() {
    for_each(kinds::scenarios(VAR), explore);
}

#[test]
fn kills_at_each_kind_of_change_on_one_file_system() {
    for_each(kinds::scenarios(&[]), explore);
}

#[test]
fn kills_at_each_kind_of_change_on_many_file_systems() {
    for_each(kinds::scenarios(&["/etc", "/var", "/var/home", "/var/usrlocal"]), explore);
}

#[test]
fn kills_at_the_first_config() {
    for_each(kinds::first(VAR), explore);
}

#[test]
fn kills_between_fixtures() {
    for_each([kinds::pairs(&fixtures()), kinds::firsts(&fixtures())].concat(), explore);
}

#[test]
fn kills_between_real_configs() {
    for_each(kinds::pairs(&rendered()), explore);
}

#[test]
fn kills_at_the_first_real_config() {
    let every = if testbed::is_exhaustive() { 1 } else { 8 };
    for_each(kinds::firsts(&rendered()).into_iter().step_by(every).collect(), explore);
}
