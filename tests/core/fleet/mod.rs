//! A fleet whose hosts run the daemon's own state machine and reboot policy, against models of the lock's server, the source,
//! the clocks and failures.
//!
//! `FLAMEHOLDER_SEED=N` runs another fleet; a failure prints the seed.

mod host;
mod leases;
mod model;

use model::{Fleet, FleetSetup, FleetSummary, Mutation, Violation};

/// A number of this run, or the default.
fn seed() -> u64 {
    std::env::var("FLAMEHOLDER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn run(setup: FleetSetup) -> Result<FleetSummary, Violation> {
    let seed = setup.seed;
    Fleet::new(setup).run().inspect_err(|violation| println!("seed {seed}: {violation:?}"))
}

fn updated(setup: FleetSetup) -> FleetSummary {
    run(setup).unwrap_or_else(|violation| panic!("seed {}: {violation:?}", seed()))
}

fn small() -> FleetSetup {
    FleetSetup { hosts: 60, slots: 3, ..FleetSetup::new(seed()) }
}

#[test]
fn fleet_of_5000_hosts_is_updated_with_no_more_hosts_down_than_slots() {
    let setup = FleetSetup { hosts: 5000, slots: 250, deaths: 20, ..FleetSetup::new(seed()) };
    let summary = updated(setup.clone());
    assert_eq!(summary.updated + summary.dead, 5000, "{summary:?}");
    assert!(summary.most_down <= 250, "{summary:?}");
    // The dead keep their slots. A turn takes a drain, a reboot and a boot check, and the pause until the next host asks.
    let rounds = 5000_u32.div_ceil(250 - 20);
    let longest = setup.longest_turn() * i64::from(rounds + 2);
    assert!(summary.seconds < longest, "{summary:?}: more than {rounds} rounds");
}

#[test]
fn lock_and_source_that_are_away_delay_the_fleet_and_leak_no_slot() {
    let summary = updated(FleetSetup { outages: true, lost_answers: true, ..small() });
    assert_eq!((summary.updated, summary.slots_held), (60, 0), "{summary:?}");
    assert!(summary.most_down <= 3, "{summary:?}");
}

#[test]
fn daemons_that_are_killed_at_any_moment_leak_no_slot() {
    let summary = updated(FleetSetup { kills: true, lost_answers: true, ..small() });
    assert_eq!((summary.updated, summary.slots_held), (60, 0), "{summary:?}");
    assert!(summary.most_down <= 3, "{summary:?}");
}

#[test]
fn bad_image_stops_after_its_slots() {
    let setup = FleetSetup { is_bad: true, ..small() };
    let summary = updated(setup.clone());
    assert_eq!((summary.tried, summary.updated, summary.slots_held), (3, 0, 3), "{summary:?}");
    let released = updated(FleetSetup { then_desires: Some((40_000, "good")), ..setup });
    assert_eq!(
        (released.updated, released.slots_held),
        (60, 0),
        "another config ends the block: {released:?}"
    );
}

#[test]
fn slot_that_a_rolled_back_host_gives_back_lets_a_bad_image_through_the_fleet() {
    let summary = updated(FleetSetup { is_bad: true, keeps_after_rollback: false, ..small() });
    assert_eq!((summary.tried, summary.slots_held), (60, 0), "{summary:?}");
}

#[test]
fn windows_are_kept_by_hosts_whose_clocks_differ_by_an_hour() {
    let summary = updated(FleetSetup { has_windows: true, clocks_differ: true, outages: true, ..small() });
    assert_eq!((summary.updated, summary.slots_held), (60, 0), "{summary:?}");
    assert!(summary.most_down <= 3, "{summary:?}");
}

#[test]
fn update_that_is_withdrawn_leaves_no_slot() {
    let summary = updated(FleetSetup { then_desires: Some((1500, "old")), lost_answers: true, ..small() });
    assert_eq!(summary.slots_held, 0, "{summary:?}");
}

#[test]
fn leases_hold_as_a_lock_does_and_are_taken_over_from_no_host_that_is_down() {
    let large = FleetSetup { has_leases: true, hosts: 500, slots: 25, deaths: 5, ..FleetSetup::new(seed()) };
    let small = FleetSetup { has_leases: true, ..small() };
    let summary = updated(large);
    assert_eq!((summary.updated + summary.dead, summary.slots_held), (500, summary.dead), "{summary:?}");
    let faulty =
        FleetSetup { outages: true, lost_answers: true, kills: true, clocks_differ: true, ..small.clone() };
    let summary = updated(faulty);
    assert_eq!((summary.updated, summary.slots_held), (60, 0), "{summary:?}");
    let summary = updated(FleetSetup { is_bad: true, hosts: 12, ..small.clone() });
    assert_eq!((summary.tried, summary.slots_held), (3, 3), "it is renewed after the rollback: {summary:?}");
    let dying = FleetSetup { hosts: 150, slots: 3, deaths: 3, dead_are_removed: true, ..small };
    let summary = updated(dying);
    assert_eq!((summary.updated + summary.dead, summary.slots_held), (150, 0), "{summary:?}");
}

#[test]
fn mutants_of_the_policy_are_found() {
    let withdrawn = FleetSetup { slots: 20, then_desires: Some((700, "old")), lost_answers: true, ..small() };
    for (mutation, setup) in [
        (Mutation::ReleaseBeforeConfirmation, small()),
        (Mutation::LockPerAttempt, FleetSetup { lost_answers: true, ..small() }),
        (Mutation::NoLock, small()),
        (Mutation::NoWindow, FleetSetup { has_windows: true, ..small() }),
        (Mutation::NeverRelease, small()),
        (Mutation::ForgetLostAnswer, withdrawn),
        (Mutation::NoExpiry, FleetSetup { has_leases: true, ..small() }),
        (
            Mutation::TakeFromTheDead,
            FleetSetup { has_leases: true, hosts: 300, deaths: 1, slots: 10, ..FleetSetup::new(seed()) },
        ),
    ] {
        let is_found = |seed| {
            let sound = updated(FleetSetup { seed, ..setup.clone() });
            assert_eq!(sound.slots_held, sound.dead, "without {mutation:?}: {sound:?}");
            let result = run(FleetSetup { mutation: Some(mutation), seed, ..setup.clone() });
            result.map_or(true, |summary| summary.updated < sound.updated || summary.slots_held > 0)
        };
        assert!((seed()..seed() + 10).any(is_found), "{mutation:?} is not found");
    }
}
