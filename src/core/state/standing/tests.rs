//! Every combination of boot entry, record and pending generation has one meaning.
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

use crate::core::state::pending::tests::intent;
use crate::core::state::pending::{Intent, Reached};
use crate::core::state::standing::*;

const BOOT: &str = "this boot";
const EARLIER: &str = "an earlier boot";

fn deployment(commit: &str) -> DeploymentId {
    DeploymentId { stateroot: "os".into(), commit: commit.into(), serial: 0 }
}

/// The record of `generation`, made for the deployment of `commit`.
fn record(generation: &str, commit: &str) -> Record {
    let mut record = Record { generation: generation.into(), ..intent(BOOT).record };
    if let Some(bound) = &mut record.deployment {
        commit.clone_into(&mut bound.commit);
    }
    record
}

fn pending(staged_in: &str, events: &[Reached]) -> Pending {
    let intent = Intent { staged_in: staged_in.into(), ..intent(BOOT) };
    let lines = std::iter::once(intent.render()).chain(events.iter().map(Reached::render));
    Pending::parse(&lines.collect::<Vec<_>>().concat()).unwrap()
}

#[test]
fn what_runs() {
    let (old, new) = (record("old", "c1"), record("new", "c2"));
    let waiting = pending(EARLIER, &[]);
    for (commit, argument, record, pending, expected) in [
        ("c1", Some("old"), Some(&old), None, Standing::Whole),
        ("c1", Some("old"), Some(&old), Some(&waiting), Standing::Whole),
        ("c1", None, Some(&old), None, Standing::Whole),
        ("c2", Some("new"), Some(&new), Some(&waiting), Standing::Whole),
        ("c2", Some("new"), Some(&old), Some(&waiting), Standing::Unbound),
        ("c2", Some("new"), None, Some(&waiting), Standing::Unbound),
        ("c2", Some("new"), Some(&old), None, Standing::Unknown),
        ("c3", Some("old"), Some(&old), None, Standing::Foreign),
        ("c3", None, Some(&old), None, Standing::Foreign),
        ("c3", None, None, None, Standing::Foreign),
    ] {
        let deployment = deployment(commit);
        let seen = Seen { deployment: &deployment, argument, record, pending };
        assert_eq!(standing(seen), expected, "{commit}, {argument:?}");
    }
}

fn fate_of(commit: &str, argument: &str, record: &Record, pending: &Pending) -> Fate {
    let deployment = deployment(commit);
    let seen = Seen {
        deployment: &deployment,
        argument: Some(argument),
        record: Some(record),
        pending: Some(pending),
    };
    fate(seen, BOOT, Some(3))
}

#[test]
fn what_becomes_of_what_was_to_boot() {
    let (old, new) = (record("old", "c1"), record("new", "c2"));
    let armed = Reached::Armed { boot_id: EARLIER.into() };
    assert_eq!(fate_of("c1", "old", &old, &pending(BOOT, &[])), Fate::Waits);
    assert_eq!(fate_of("c2", "new", &new, &pending(EARLIER, &[])), Fate::Arrived);
    assert_eq!(fate_of("c3", "old", &old, &pending(EARLIER, &[])), Fate::Superseded);
    let kind = |events: &[Reached]| match fate_of("c1", "old", &old, &pending(EARLIER, events)) {
        Fate::StageAgain(failure) => failure.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(&[]), FailureKind::NotArmed);
    assert_eq!(kind(std::slice::from_ref(&armed)), FailureKind::CutOff);
    let failure = Failure { boot_id: EARLIER.into(), kind: FailureKind::NotBound, reason: "full".into() };
    assert_eq!(kind(&[armed, Reached::Failed(failure)]), FailureKind::NotBound);
}

#[test]
fn it_is_bound_where_it_runs_once() {
    let old = record("old", "c1");
    let unbound = |boot: &str| Reached::Unbound { boot_id: boot.into() };
    let leave = Fate::Leave("its deployment booted without its configuration, twice".into());
    for (events, expected) in [
        (vec![], Fate::Bind),
        (vec![unbound(BOOT)], Fate::Bind),
        (vec![unbound(EARLIER)], leave.clone()),
        (vec![unbound(EARLIER), unbound(BOOT)], leave),
    ] {
        assert_eq!(fate_of("c2", "new", &old, &pending(EARLIER, &events)), expected, "{events:?}");
    }
}

#[test]
fn it_is_left_after_so_many_boots_or_when_that_was_decided() {
    let (old, new) = (record("old", "c1"), record("new", "c2"));
    let booted = |boot: &str| Reached::Booted { boot_id: boot.into() };
    let given_up = Reached::GivenUp { boot_id: EARLIER.into(), reason: "it is sick".into() };
    let (leave, left) = (Fate::Leave("it is sick".into()), Fate::Left("it is sick".into()));
    let here = |events: &[Reached]| fate_of("c2", "new", &new, &pending(EARLIER, events));
    let back = |events: &[Reached]| fate_of("c1", "old", &old, &pending(EARLIER, events));
    assert_eq!(here(&[booted("a"), booted("b"), booted(BOOT)]), Fate::Arrived);
    let three = [booted("a"), booted("b"), booted("c")];
    assert!(matches!(here(&three), Fate::Leave(reason) if reason.contains("booted 3 times")));
    assert_eq!(here(&[booted("a"), given_up.clone()]), leave);
    assert_eq!(back(&[booted("a"), given_up]), left);
    assert!(matches!(back(&[booted("a")]), Fate::Left(reason) if reason.starts_with("before it was found")));
    let finalized = Reached::Finalized { boot_id: EARLIER.into() };
    assert!(matches!(back(&[finalized]), Fate::Left(reason) if reason.starts_with("it did not come up")));
    let deployment = deployment("c2");
    let tried = pending(EARLIER, &three);
    let seen =
        Seen { deployment: &deployment, argument: Some("new"), record: Some(&new), pending: Some(&tried) };
    assert_eq!(fate(seen, BOOT, None), Fate::Arrived, "without a number it may be tried for ever");
}
