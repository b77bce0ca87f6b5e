//! Sequences of events that a host can see, and properties of every phase with every event.

mod chart;

use chart::{all_events, all_phases, delay};
use flameholder::core::daemon::lifecycle::{
    AfterDrain, BlockedConfig, BootCheckState, ConfigRef, DaemonCommand, DaemonDelay, DaemonEvent,
    DaemonPhase, DaemonProblem, HostObservation, Lifecycle, ProblemClass,
};
use flameholder::core::plan::remaining_work::{LiveDisruption, RemainingWork};
use flameholder::core::values::backoff::RetryClass;

pub(crate) fn desired(config: &str) -> ConfigRef {
    ConfigRef { config: config.into(), image: None, digest: None }
}

pub(crate) fn problem(class: ProblemClass) -> DaemonProblem {
    DaemonProblem { class, reason: "the disk is full; make room".into() }
}

/// Feed events to a daemon and return its end and the names of the phases that it entered.
fn history(from: Lifecycle, events: impl IntoIterator<Item = DaemonEvent>) -> (Lifecycle, Vec<&'static str>) {
    let mut phases = vec![from.phase.name()];
    let end = events.into_iter().fold(from, |at, event| {
        let (next, _) = at.step(event);
        phases.push(next.phase.name());
        next
    });
    (end, phases)
}

fn look(current: &str) -> DaemonEvent {
    DaemonEvent::Observed(HostObservation { current: Some(desired(current)), ..HostObservation::default() })
}

fn at(phase: DaemonPhase) -> Lifecycle {
    Lifecycle { phase, desired: Some(desired("b")), current: Some(desired("a")), ..Lifecycle::default() }
}

#[test]
fn update_with_a_reboot_ends_in_done() {
    let events = [
        DaemonEvent::DesiredChanged(desired("a")),
        look("a"),
        DaemonEvent::Verified,
        DaemonEvent::Uncordoned,
        DaemonEvent::DesiredChanged(desired("b")),
        DaemonEvent::Fetched,
        DaemonEvent::Prepared(RemainingWork::Reboot(())),
        DaemonEvent::Drained,
        DaemonEvent::Unlocked,
        DaemonEvent::Inhibited { by: "an administrator".into() },
        DaemonEvent::RebootAccepted,
    ];
    let (_, phases) = history(Lifecycle::default(), events);
    let expected = [
        "Observing",
        "Observing",
        "Verifying",
        "Uncordoning",
        "Done",
        "Fetching",
        "Preparing",
        "Draining",
        "Unlocking",
        "Rebooting",
        "Rebooting",
        "ShuttingDown",
    ];
    assert_eq!(phases, expected);
    let probation = HostObservation {
        current: Some(desired("b")),
        boot_check: BootCheckState::Unconfirmed { failed_checks: None },
        ..HostObservation::default()
    };
    let events = [
        DaemonEvent::DesiredChanged(desired("b")),
        DaemonEvent::Observed(probation),
        DaemonEvent::StateChanged,
        look("b"),
        DaemonEvent::Verified,
        DaemonEvent::Uncordoned,
    ];
    let (end, phases) = history(Lifecycle::default(), events);
    assert_eq!(
        phases,
        ["Observing", "Observing", "CheckingBoot", "Observing", "Verifying", "Uncordoning", "Done"]
    );
    assert_eq!(end.current, Some(desired("b")));
}

#[test]
fn policy_grants_a_disruption_before_the_drain_and_repeats_its_request_meanwhile() {
    let prepared = || DaemonEvent::PreparedUnderPolicy(RemainingWork::Reboot(()));
    let events = [
        prepared(),
        DaemonEvent::GrantDelayed(delay()),
        DaemonEvent::TimerExpired,
        DaemonEvent::GrantDelayed(delay()),
        DaemonEvent::TimerExpired,
        DaemonEvent::Granted,
        DaemonEvent::Drained,
    ];
    let preparing = at(DaemonPhase::Preparing { target: desired("b") });
    let (_, phases) = history(preparing.clone(), events);
    let waits = ["AwaitingGrant"; 5];
    assert_eq!(phases, [&["Preparing"][..], &waits, &["Draining", "Unlocking"]].concat());
    let (waiting, _) = history(preparing.clone(), [prepared(), DaemonEvent::GrantDelayed(delay())]);
    assert!(waiting.phase.reason().unwrap().contains("all slots are held"));
    let (again, commands) = waiting.clone().step(DaemonEvent::TimerExpired);
    assert_eq!(commands, [DaemonCommand::RequestGrant(desired("b"))]);
    assert!(again.is_same_wait(&waiting) && !waiting.is_same_wait(&preparing));
    for answer in [
        DaemonEvent::GrantDelayed(delay()),
        DaemonEvent::Granted,
        DaemonEvent::Failed(problem(ProblemClass::Interrupted)),
    ] {
        let (end, _) = history(again.clone(), [DaemonEvent::StateChanged, answer]);
        assert_eq!(
            (end.phase.name(), end.observes_again),
            ("Observing", false),
            "an operator's request is not lost"
        );
    }
    let live = LiveDisruption { drain: false };
    let (_, phases) = history(preparing, [DaemonEvent::PreparedUnderPolicy(RemainingWork::Live(live))]);
    assert_eq!(phases, ["Preparing", "Applying"], "nothing is disrupted");
}

#[test]
fn host_with_neither_a_desired_nor_a_current_config_is_reported_until_it_has_one() {
    let undesired = || DaemonEvent::NoDesiredConfig("run `flameholder adopt`".into());
    let nothing = || DaemonEvent::Observed(HostObservation::default());
    for events in [[undesired(), nothing()], [nothing(), undesired()]] {
        let (end, phases) = history(Lifecycle::default(), events);
        assert_eq!(phases.last(), Some(&"BackingOff"));
        assert_eq!(end.phase.reason().as_deref(), Some("run `flameholder adopt`"));
        let (adopted, phases) = history(end.clone(), [DaemonEvent::StateChanged, look("a")]);
        assert_eq!(
            phases,
            ["BackingOff", "Observing", "Idle"],
            "the source desires the record's config next"
        );
        let (_, phases) = history(adopted, [DaemonEvent::DesiredChanged(desired("a"))]);
        assert_eq!(phases, ["Idle", "Verifying"]);
        let (_, phases) = history(end, [undesired(), DaemonEvent::DesiredChanged(desired("a"))]);
        assert_eq!(phases, ["BackingOff", "BackingOff", "Fetching"]);
    }
    // A record is enough: the source desires its config as soon as it knows it.
    let (_, phases) = history(Lifecycle::default(), [undesired(), look("a")]);
    assert_eq!(phases, ["Observing", "Observing", "Idle"]);
}

#[test]
fn new_desired_config_is_followed_from_every_phase() {
    let target = desired("b");
    let draining =
        DaemonPhase::Draining { target: target.clone(), next: AfterDrain::Unlock, is_overdue: false };
    let wished = || DaemonEvent::DesiredChanged(desired("c"));
    for (phase, events, expected) in [
        (DaemonPhase::Fetching { target: target.clone() }, vec![], "Fetching"),
        (
            DaemonPhase::Preparing { target: target.clone() },
            vec![DaemonEvent::Failed(problem(ProblemClass::Interrupted))],
            "Fetching",
        ),
        (
            DaemonPhase::Preparing { target: target.clone() },
            vec![DaemonEvent::Prepared(RemainingWork::Reboot(()))],
            "Fetching",
        ),
        (draining, vec![], "Fetching"),
        (
            DaemonPhase::Applying { target: target.clone() },
            vec![DaemonEvent::Applied, DaemonEvent::Verified],
            "Fetching",
        ),
        (
            DaemonPhase::Rebooting { target: target.clone(), inhibited_by: None },
            vec![DaemonEvent::Inhibited { by: "x".into() }],
            "Fetching",
        ),
        (DaemonPhase::Unlocking { target: target.clone() }, vec![DaemonEvent::Unlocked], "Fetching"),
        (
            DaemonPhase::Rebooting { target, inhibited_by: None },
            vec![DaemonEvent::RebootAccepted],
            "ShuttingDown",
        ),
        (DaemonPhase::Uncordoning { is_overdue: false }, vec![], "Fetching"),
        (DaemonPhase::BackingOff { problem: problem(ProblemClass::Host) }, vec![], "Fetching"),
        (DaemonPhase::Blocked { reason: "x".into() }, vec![], "Fetching"),
    ] {
        let name = phase.name();
        let (end, _) = history(at(phase), std::iter::once(wished()).chain(events));
        assert_eq!(end.phase.name(), expected, "{name}");
        assert_eq!(end.desired, Some(desired("c")));
    }
}

#[test]
fn desired_config_equal_to_the_current_one_ends_the_update() {
    let draining = DaemonPhase::Draining { target: desired("b"), next: AfterDrain::Unlock, is_overdue: true };
    let events = [DaemonEvent::DesiredChanged(desired("a")), DaemonEvent::Verified, DaemonEvent::Uncordoned];
    let (_, phases) = history(at(draining), events);
    assert_eq!(phases, ["Draining", "Verifying", "Uncordoning", "Done"]);
}

#[test]
fn blocked_target_is_not_retried() {
    let blocked = Some(BlockedConfig { desired: desired("b"), reason: "it was not healthy".into() });
    let looked = DaemonEvent::Observed(HostObservation {
        current: Some(desired("a")),
        blocked,
        ..HostObservation::default()
    });
    let (end, _) = history(at(DaemonPhase::Observing), [looked]);
    let DaemonPhase::Blocked { reason } = &end.phase else { panic!("{end:?}") };
    assert!(reason.contains("it was not healthy") && reason.contains("flameholder retry"), "{reason}");
    let (end, _) = history(end, [DaemonEvent::StateChanged, look("a")]);
    assert_eq!(end.phase, DaemonPhase::Fetching { target: desired("b") });
}

#[test]
fn forced_config_is_applied_although_it_is_current() {
    let looked = DaemonEvent::Observed(HostObservation {
        current: Some(desired("b")),
        is_forced: true,
        ..HostObservation::default()
    });
    let (end, phases) = history(
        at(DaemonPhase::Observing),
        [looked, DaemonEvent::Fetched, DaemonEvent::Prepared(RemainingWork::Reboot(()))],
    );
    assert_eq!(phases, ["Observing", "Fetching", "Preparing", "Draining"]);
    assert!(!end.is_forced);
}

#[test]
fn failures_are_counted_until_a_success() {
    let mut at = at(DaemonPhase::Fetching { target: desired("b") });
    for number in 1..4 {
        let (next, commands) = at.step(DaemonEvent::Failed(problem(ProblemClass::Transient)));
        assert_eq!(
            commands,
            [DaemonCommand::Wait(DaemonDelay::Backoff(RetryClass::Time, number))],
            "{next:?}"
        );
        let (next, _) = history(next, [DaemonEvent::TimerExpired, look("a")]);
        assert_eq!(next.phase.name(), "Fetching");
        at = next;
    }
    let events = [
        DaemonEvent::Fetched,
        DaemonEvent::Prepared(RemainingWork::Nothing),
        DaemonEvent::Verified,
        DaemonEvent::Uncordoned,
    ];
    let (end, _) = history(at, events);
    assert_eq!((end.phase, end.failures), (DaemonPhase::Done, 0));
}

#[test]
fn drift_enters_drifted_and_its_repair_done() {
    let settled = Lifecycle { current: Some(desired("b")), ..at(DaemonPhase::Done) };
    let deviates = DaemonEvent::Drifted { reason: "/etc/a".into() };
    let events = [
        DaemonEvent::FilesChanged,
        deviates,
        DaemonEvent::FilesChanged,
        DaemonEvent::Verified,
        DaemonEvent::Uncordoned,
    ];
    let (_, phases) = history(settled, events);
    assert_eq!(phases, ["Done", "Verifying", "Drifted", "Verifying", "Uncordoning", "Done"]);
}

#[test]
fn commands_that_change_the_host_name_the_desired_config() {
    for phase in all_phases() {
        for event in all_events() {
            let (next, commands) = at(phase.clone()).step(event.clone());
            for command in commands {
                let (DaemonCommand::Apply(target)
                | DaemonCommand::Unlock(target)
                | DaemonCommand::Reboot(target)
                | DaemonCommand::Drain(target)) = &command
                else {
                    continue;
                };
                assert_eq!(Some(target), next.phase.target(), "{phase:?} {event:?}");
                assert_eq!(next.desired.as_ref(), Some(target), "{phase:?} {event:?}");
            }
        }
    }
}

#[test]
fn stop_ends_every_phase() {
    for phase in all_phases() {
        let (end, commands) = at(phase).step(DaemonEvent::Stop);
        assert_eq!(end.phase, DaemonPhase::Stopping);
        assert!(commands.iter().all(|command| *command == DaemonCommand::Cancel));
    }
}

#[test]
fn rejected_generation_is_never_done() {
    let rejected = || {
        DaemonEvent::Observed(HostObservation {
            current: Some(desired("b")),
            boot_check: BootCheckState::RollingBack { reason: "it is sick".into() },
            ..HostObservation::default()
        })
    };
    let events = all_events().into_iter().filter(|event| {
        // The host is observed again before anything else, and is still the same.
        !matches!(event, DaemonEvent::Observed(_) | DaemonEvent::Stop)
    });
    for event in events {
        let (end, phases) = history(at(DaemonPhase::Observing), [rejected(), event.clone()]);
        assert!(["RollingBack", "Observing"].contains(&end.phase.name()), "{event:?}: {phases:?}");
    }
    let (end, _) = history(at(DaemonPhase::Observing), [rejected()]);
    assert!(end.phase.reason().unwrap().contains("it is sick"));
    assert_eq!(end.phase.commands(0), [DaemonCommand::Wait(DaemonDelay::BootCheck)]);
}

#[test]
fn operator_request_is_followed_in_every_phase() {
    for phase in all_phases().into_iter().filter(|phase| *phase != DaemonPhase::Stopping) {
        let name = phase.name();
        let (asked, commands) = at(phase).step(DaemonEvent::StateChanged);
        // Cancelled work ends with an interruption, and work that goes on with its result.
        let ends = [DaemonEvent::Failed(problem(ProblemClass::Interrupted)), DaemonEvent::TimerExpired];
        let (end, phases) = history(asked, ends);
        let is_observed = phases.contains(&"Observing") || end.phase.name() == "Observing";
        assert!(is_observed || commands == [DaemonCommand::Cancel], "{name}: {phases:?}");
    }
    let verifying = at(DaemonPhase::Verifying).step(DaemonEvent::StateChanged).0;
    assert_eq!(verifying.phase, DaemonPhase::Verifying, "a repair is not interrupted");
    let drifted = DaemonEvent::Drifted { reason: "/etc/a".into() };
    let (end, _) = history(verifying, [drifted]);
    assert_eq!((end.phase, end.observes_again), (DaemonPhase::Observing, false));
}

#[test]
fn uncordon_of_the_daemon_names_the_reason_for_which_it_fails() {
    let waits = || DaemonEvent::UncordonDelayed("the API server cannot be reached".into());
    let (uncordoning, _) = history(at(DaemonPhase::Uncordoning { is_overdue: false }), [waits()]);
    let (overdue, _) = history(uncordoning.clone(), [DaemonEvent::TimerExpired]);
    assert_eq!(overdue.phase, DaemonPhase::Uncordoning { is_overdue: true });
    for lifecycle in [uncordoning, overdue.clone()] {
        let reason = lifecycle.reason().unwrap();
        assert!(reason.ends_with("not uncordoned yet: the API server cannot be reached"), "{reason}");
    }
    let (done, _) = history(overdue, [DaemonEvent::Uncordoned, waits()]);
    assert_eq!((done.phase.name(), done.reason()), ("Done", None));
}
