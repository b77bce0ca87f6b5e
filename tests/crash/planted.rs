//! Engines that err on purpose must not pass: a test that cannot fail shows nothing.

use crate::{
    bent::Bend,
    case::Case,
    crashes::require_tree,
    explorer::{Explorer, Wrong},
    kinds,
};

/// The kinds of complaint that an engine draws on itself when it carries out one kind of change.
fn drawn(kind: &str, bend: Bend) -> Vec<Wrong> {
    let scenario = kinds::scenarios(kinds::VAR).into_iter().find(|scenario| scenario.name == kind);
    let case = Case::of(&scenario.expect("a kind of this name"));
    let explorer = Explorer::new(&case, bend);
    explorer.run();
    explorer.settle();
    let mut drawn: Vec<Wrong> = explorer.complaints().into_iter().map(|(wrong, _)| wrong).collect();
    drawn.dedup();
    drawn
}

/// Fails unless the engine draws a complaint of this kind.
fn assert_caught(kind: &str, bend: Bend, wrong: Wrong) {
    require_tree();
    let drawn = drawn(kind, bend);
    assert!(drawn.contains(&wrong), "{bend:?} at {kind} draws {drawn:?}, not {wrong:?}");
}

#[test]
fn a_straight_engine_draws_nothing() {
    require_tree();
    for kind in ["several files", "unit with drop-in removed"] {
        assert_eq!(drawn(kind, Bend::Straight), []);
    }
}

#[test]
fn a_change_said_to_hold_too_early_is_caught() {
    assert_caught("several files", Bend::CommitsFirst, Wrong::Mixed);
}

#[test]
fn acts_before_the_journal_are_caught() {
    assert_caught("several files", Bend::MovesFirst, Wrong::Mixed);
}

#[test]
fn a_file_that_is_gone_for_a_moment_is_caught() {
    assert_caught("changed file", Bend::ReplacesInTwo, Wrong::Read);
}

#[test]
fn a_link_before_what_it_leads_to_is_caught() {
    // The record is replaced first, then the unit comes, then its link.
    assert_caught("unit made and enabled", Bend::TradesTwo(1), Wrong::Read);
}

#[test]
fn another_mode_is_caught() {
    assert_caught("changed file", Bend::GivesAway, Wrong::Mixed);
    assert_caught("changed file", Bend::GivesAway, Wrong::Read);
}

#[test]
fn what_is_left_over_is_caught() {
    assert_caught("changed file", Bend::ForgetsSlot, Wrong::Mixed);
    assert_caught("changed file", Bend::ForgetsJournal, Wrong::Mixed);
}

#[test]
fn an_act_that_is_not_taken_back_is_caught() {
    for number in 0..3 {
        assert_caught("several files", Bend::ForgetsUndo(number), Wrong::Mixed);
    }
}

#[test]
fn a_recovery_said_to_be_over_too_early_is_caught() {
    assert_caught("several files", Bend::WithdrawsFirst, Wrong::Mixed);
}
