//! Engines with a planted fault must be noticed: a test that cannot fail proves nothing.

use crate::bent::Bend;
use crate::case::Case;
use crate::crashes::require_tree;
use crate::explorer::{Explorer, Wrong};
use crate::kinds;

/// Kinds of complaint about an engine during one kind of change.
fn drawn(kind: &str, bend: Bend) -> Vec<Wrong> {
    let scenario = kinds::scenarios(kinds::VAR).into_iter().find(|scenario| scenario.name == kind);
    let case = Case::of(&scenario.expect("a kind of this name"));
    let explorer = Explorer::new(&case, bend);
    explorer.run();
    explorer.recover_all();
    let mut drawn: Vec<Wrong> = explorer.complaints().into_iter().map(|(wrong, _)| wrong).collect();
    drawn.dedup();
    drawn
}

/// Panics unless the engine causes a complaint of this kind.
fn assert_caught(kind: &str, bend: Bend, wrong: Wrong) {
    require_tree();
    let drawn = drawn(kind, bend);
    assert!(drawn.contains(&wrong), "{bend:?} at {kind} causes {drawn:?}, expected {wrong:?}");
}

#[test]
fn faultless_engine_causes_no_complaint() {
    require_tree();
    for kind in ["several files", "unit with drop-in removed"] {
        assert_eq!(drawn(kind, Bend::Straight), []);
    }
}

#[test]
fn premature_commit_is_noticed() {
    assert_caught("several files", Bend::CommitsFirst, Wrong::Mixed);
}

#[test]
fn act_before_the_journal_is_noticed() {
    assert_caught("several files", Bend::MovesFirst, Wrong::Mixed);
}

#[test]
fn missing_file_during_a_change_is_noticed() {
    assert_caught("changed file", Bend::ReplacesInTwo, Wrong::Read);
}

#[test]
fn dangling_link_during_a_change_is_noticed() {
    // The record is replaced first, then the unit is created, then its link.
    assert_caught("unit made and enabled", Bend::TradesTwo(1), Wrong::Read);
}

#[test]
fn wrong_mode_is_noticed() {
    assert_caught("changed file", Bend::GivesAway, Wrong::Mixed);
    assert_caught("changed file", Bend::GivesAway, Wrong::Read);
}

#[test]
fn leftover_slot_or_journal_is_noticed() {
    assert_caught("changed file", Bend::ForgetsSlot, Wrong::Mixed);
    assert_caught("changed file", Bend::ForgetsJournal, Wrong::Mixed);
}

#[test]
fn act_that_is_not_undone_is_noticed() {
    for number in 0..3 {
        assert_caught("several files", Bend::ForgetsUndo(number), Wrong::Mixed);
    }
}

#[test]
fn premature_end_of_recovery_is_noticed() {
    assert_caught("several files", Bend::WithdrawsFirst, Wrong::Mixed);
}
