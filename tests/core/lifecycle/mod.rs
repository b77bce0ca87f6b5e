//! The histories that a host can have, and that no event can do harm where it means nothing.

mod chart;

use flameholder::core::lifecycle::{
    Class, Command, Delay, Event, Held, Lifecycle, Look, Phase, Prepared, Problem, Standing, Then, Wish,
};
use flameholder::core::retry::Cure;

use chart::{all_events, all_phases};

pub(crate) fn wish(config: &str) -> Wish {
    Wish { config: config.into(), image: None, digest: None }
}

pub(crate) fn problem(class: Class) -> Problem {
    Problem { class, reason: "the disk is full; make room".into() }
}

/// A daemon that goes through events; the phases that it enters.
fn history(from: Lifecycle, events: impl IntoIterator<Item = Event>) -> (Lifecycle, Vec<&'static str>) {
    let mut phases = vec![from.phase.name()];
    let end = events.into_iter().fold(from, |at, event| {
        let (next, _) = at.step(event);
        phases.push(next.phase.name());
        next
    });
    (end, phases)
}

fn look(runs: &str) -> Event {
    Event::Looked(Look { runs: Some(wish(runs)), ..Look::default() })
}

fn at(phase: Phase) -> Lifecycle {
    Lifecycle { phase, wish: Some(wish("b")), runs: Some(wish("a")), ..Lifecycle::default() }
}

#[test]
fn an_update_with_a_reboot() {
    let events = [
        Event::Wished(wish("a")),
        look("a"),
        Event::Verified,
        Event::Uncordoned,
        Event::Wished(wish("b")),
        Event::Fetched,
        Event::Prepared(Prepared::Staged),
        Event::Drained,
        Event::Armed,
        Event::Blocked { by: "an administrator".into() },
        Event::Accepted,
    ];
    let (_, phases) = history(Lifecycle::default(), events);
    let expected = [
        "Looking",
        "Looking",
        "Verifying",
        "Uncordoning",
        "Done",
        "Fetching",
        "Preparing",
        "Draining",
        "Arming",
        "Rebooting",
        "Rebooting",
        "GoingDown",
    ];
    assert_eq!(phases, expected);
    let probation = Look {
        runs: Some(wish("b")),
        standing: Standing::OnProbation { complaint: None },
        ..Look::default()
    };
    let events = [
        Event::Wished(wish("b")),
        Event::Looked(probation),
        Event::Nudged,
        look("b"),
        Event::Verified,
        Event::Uncordoned,
    ];
    let (end, phases) = history(Lifecycle::default(), events);
    assert_eq!(phases, ["Looking", "Looking", "Judging", "Looking", "Verifying", "Uncordoning", "Done"]);
    assert_eq!(end.runs, Some(wish("b")));
}

#[test]
fn another_wish_is_heard_at_any_moment() {
    let target = wish("b");
    let draining = Phase::Draining { target: target.clone(), then: Then::Arm, is_late: false };
    let wished = || Event::Wished(wish("c"));
    for (phase, events, expected) in [
        (Phase::Fetching { target: target.clone() }, vec![], "Fetching"),
        (
            Phase::Preparing { target: target.clone() },
            vec![Event::Failed(problem(Class::Interrupted))],
            "Fetching",
        ),
        (Phase::Preparing { target: target.clone() }, vec![Event::Prepared(Prepared::Staged)], "Fetching"),
        (draining, vec![], "Fetching"),
        (Phase::Applying { target: target.clone() }, vec![Event::Applied, Event::Verified], "Fetching"),
        (
            Phase::Rebooting { target: target.clone(), blocked_by: None },
            vec![Event::Blocked { by: "x".into() }],
            "Fetching",
        ),
        (Phase::Arming { target: target.clone() }, vec![Event::Armed], "Fetching"),
        (Phase::Rebooting { target, blocked_by: None }, vec![Event::Accepted], "GoingDown"),
        (Phase::Uncordoning { is_late: false }, vec![], "Fetching"),
        (Phase::Waiting { problem: problem(Class::Host) }, vec![], "Fetching"),
        (Phase::Held { reason: "x".into() }, vec![], "Fetching"),
    ] {
        let name = phase.name();
        let (end, _) = history(at(phase), std::iter::once(wished()).chain(events));
        assert_eq!(end.phase.name(), expected, "{name}");
        assert_eq!(end.wish, Some(wish("c")));
    }
}

#[test]
fn a_wish_for_what_runs_ends_what_is_under_way() {
    let draining = Phase::Draining { target: wish("b"), then: Then::Arm, is_late: true };
    let events = [Event::Wished(wish("a")), Event::Verified, Event::Uncordoned];
    let (_, phases) = history(at(draining), events);
    assert_eq!(phases, ["Draining", "Verifying", "Uncordoning", "Done"]);
}

#[test]
fn what_is_held_is_not_gone_to() {
    let held = Some(Held { wish: wish("b"), reason: "it was not healthy".into() });
    let looked = Event::Looked(Look { runs: Some(wish("a")), held, ..Look::default() });
    let (end, _) = history(at(Phase::Looking), [looked]);
    let Phase::Held { reason } = &end.phase else { panic!("{end:?}") };
    assert!(reason.contains("it was not healthy") && reason.contains("flameholder retry"), "{reason}");
    let (end, _) = history(end, [Event::Nudged, look("a")]);
    assert_eq!(end.phase, Phase::Fetching { target: wish("b") });
}

#[test]
fn what_is_forced_is_gone_to_although_it_runs() {
    let looked = Event::Looked(Look { runs: Some(wish("b")), is_forced: true, ..Look::default() });
    let (end, phases) =
        history(at(Phase::Looking), [looked, Event::Fetched, Event::Prepared(Prepared::Staged)]);
    assert_eq!(phases, ["Looking", "Fetching", "Preparing", "Draining"]);
    assert!(!end.is_forced);
}

#[test]
fn failures_are_counted_until_something_succeeds() {
    let mut at = at(Phase::Fetching { target: wish("b") });
    for number in 1..4 {
        let (next, commands) = at.step(Event::Failed(problem(Class::Transient)));
        assert_eq!(commands, [Command::Wait(Delay::Retry(Cure::Time, number))], "{next:?}");
        let (next, _) = history(next, [Event::Due, look("a")]);
        assert_eq!(next.phase.name(), "Fetching");
        at = next;
    }
    let events = [Event::Fetched, Event::Prepared(Prepared::Nothing), Event::Verified, Event::Uncordoned];
    let (end, _) = history(at, events);
    assert_eq!((end.phase, end.failures), (Phase::Done, 0));
}

#[test]
fn drift_is_seen_and_its_end_too() {
    let settled = Lifecycle { runs: Some(wish("b")), ..at(Phase::Done) };
    let deviates = Event::Deviates { reason: "/etc/a".into() };
    let events = [Event::Touched, deviates, Event::Touched, Event::Verified, Event::Uncordoned];
    let (_, phases) = history(settled, events);
    assert_eq!(phases, ["Done", "Verifying", "Drifted", "Verifying", "Uncordoning", "Done"]);
}

#[test]
fn the_host_is_changed_only_for_what_is_wanted() {
    for phase in all_phases() {
        for event in all_events() {
            let (next, commands) = at(phase.clone()).step(event.clone());
            for command in commands {
                let (Command::Apply(target)
                | Command::Arm(target)
                | Command::Reboot(target)
                | Command::Drain(target)) = &command
                else {
                    continue;
                };
                assert_eq!(Some(target), next.phase.target(), "{phase:?} {event:?}");
                assert_eq!(next.wish.as_ref(), Some(target), "{phase:?} {event:?}");
            }
        }
    }
}

#[test]
fn it_ends_whatever_it_does() {
    for phase in all_phases() {
        let (end, commands) = at(phase).step(Event::Stop);
        assert_eq!(end.phase, Phase::Stopping);
        assert!(commands.iter().all(|command| *command == Command::Cancel));
    }
}
