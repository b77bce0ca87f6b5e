//! Table tests: every combination of boot entry, record and pending record.
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

use super::*;
use crate::core::state::pending::tests::intent;
use crate::core::state::pending::{PendingEntry, StagedGeneration};

const BOOT: &str = "this boot";
const EARLIER: &str = "an earlier boot";

fn deployment(commit: &str) -> DeploymentId {
    DeploymentId { stateroot: "os".into(), commit: commit.into(), serial: 0 }
}

/// Return the record of `generation`, made for the deployment of `commit`.
fn record(generation: &str, commit: &str) -> GenerationRecord {
    let mut record = GenerationRecord { generation: generation.into(), ..intent(BOOT).record };
    if let Some(deployed) = &mut record.deployment {
        commit.clone_into(&mut deployed.commit);
    }
    record
}

fn pending(staged_in: &str, events: &[PendingEntry]) -> PendingGeneration {
    let intent = StagedGeneration { staged_in_boot: staged_in.into(), ..intent(BOOT) };
    let lines = std::iter::once(intent.render()).chain(events.iter().map(PendingEntry::render));
    PendingGeneration::parse(&lines.collect::<Vec<_>>().concat()).unwrap()
}

#[test]
fn booted_deployment_is_classified() {
    let (old, new) = (record("old", "c1"), record("new", "c2"));
    let waiting = pending(EARLIER, &[]);
    for (commit, argument, record, pending, expected) in [
        ("c1", Some("old"), Some(&old), None, BootedState::Complete),
        ("c1", Some("old"), Some(&old), Some(&waiting), BootedState::Complete),
        ("c1", None, Some(&old), None, BootedState::Complete),
        ("c2", Some("new"), Some(&new), Some(&waiting), BootedState::Complete),
        ("c2", Some("new"), Some(&old), Some(&waiting), BootedState::WithoutConfig),
        ("c2", Some("new"), None, Some(&waiting), BootedState::WithoutConfig),
        ("c2", Some("new"), Some(&old), None, BootedState::Unknown),
        ("c3", Some("old"), Some(&old), None, BootedState::Foreign),
        ("c3", Some("new"), Some(&old), Some(&waiting), BootedState::Foreign),
        ("c3", None, Some(&old), None, BootedState::Foreign),
        ("c3", None, None, None, BootedState::Foreign),
    ] {
        let deployment = deployment(commit);
        let named = argument.map(GenerationId::from);
        let seen = BootObservation {
            deployment: &deployment,
            argument: named.as_ref(),
            record,
            pending,
            choice: BootChoice::Default,
        };
        assert_eq!(booted_state(seen), expected, "{commit}, {argument:?}");
    }
}

fn fate_of(
    commit: &str,
    argument: &str,
    record: &GenerationRecord,
    pending: &PendingGeneration,
) -> PendingOutcome {
    let deployment = deployment(commit);
    let seen = BootObservation {
        deployment: &deployment,
        argument: Some(&argument.into()),
        record: Some(record),
        pending: Some(pending),
        choice: BootChoice::Other,
    };
    pending_outcome(seen, &BOOT.into(), Some(3))
}

#[test]
fn pending_generation_has_one_outcome() {
    let (old, new) = (record("old", "c1"), record("new", "c2"));
    let armed = PendingEntry::Unlocked { boot_id: EARLIER.into() };
    assert_eq!(fate_of("c1", "old", &old, &pending(BOOT, &[])), PendingOutcome::AwaitsReboot);
    assert_eq!(fate_of("c2", "new", &new, &pending(EARLIER, &[])), PendingOutcome::Booted);
    assert_eq!(fate_of("c3", "old", &old, &pending(EARLIER, &[])), PendingOutcome::Superseded);
    let kind = |events: &[PendingEntry]| match fate_of("c1", "old", &old, &pending(EARLIER, events)) {
        PendingOutcome::Restage(failure) => failure.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(&[]), FailureKind::NotUnlocked);
    assert_eq!(kind(std::slice::from_ref(&armed)), FailureKind::Interrupted);
    let failure =
        UpdateFailure { boot_id: EARLIER.into(), kind: FailureKind::ConfigNotWritten, reason: "full".into() };
    assert_eq!(kind(&[armed, PendingEntry::Failed(failure)]), FailureKind::ConfigNotWritten);
}

#[test]
fn finalization_is_tried_three_times_and_without_limit_in_a_first_boot() {
    let old = record("old", "c1");
    let failure = |boot: &str| UpdateFailure {
        boot_id: boot.into(),
        kind: FailureKind::Interrupted,
        reason: "the power went".into(),
    };
    let outcome = |failures: usize, completes_first_boot: bool| {
        let failures = (0..failures).map(|number| failure(&number.to_string())).collect();
        let staged = StagedGeneration { failures, completes_first_boot, ..intent(EARLIER) };
        let unlocked = PendingEntry::Unlocked { boot_id: EARLIER.into() };
        let lines = [staged.render(), unlocked.render()].concat();
        fate_of("c1", "old", &old, &PendingGeneration::parse(&lines).unwrap())
    };
    assert!(matches!(outcome(1, false), PendingOutcome::Restage(_)));
    assert!(
        matches!(outcome(2, false), PendingOutcome::RolledBack(reason) if reason.contains("3 shutdowns"))
    );
    assert!(matches!(outcome(9, true), PendingOutcome::Restage(_)));
}

#[test]
fn soft_reboot_into_the_base_leaves_a_finalized_generation_to_the_bootloader() {
    let (kernel, other) = ("0a", "0b");
    let old = record("old", "c1");
    let outcome = |staged_in: &BootId, booted_in: &BootId| {
        let deployment = deployment("c1");
        let finalized = PendingEntry::Finalized { boot_id: staged_in.clone() };
        let pending = pending(staged_in.as_str(), &[finalized]);
        let seen = BootObservation {
            deployment: &deployment,
            argument: Some(&"old".into()),
            record: Some(&old),
            pending: Some(&pending),
            choice: BootChoice::Other,
        };
        pending_outcome(seen, booted_in, Some(3))
    };
    let boot = BootId::of_kernel;
    assert_eq!(outcome(&boot(kernel, 0), &boot(kernel, 1)), PendingOutcome::AwaitsFullReboot);
    assert_eq!(outcome(&boot(kernel, 1), &boot(kernel, 3)), PendingOutcome::AwaitsFullReboot);
    for staged_in in [boot(kernel, 0), boot(kernel, 2)] {
        let blocked = outcome(&staged_in, &boot(other, 0));
        assert!(
            matches!(blocked, PendingOutcome::RolledBack(reason) if reason.starts_with("it did not come up"))
        );
    }
}

#[test]
fn missing_config_is_written_once_then_rolled_back() {
    let old = record("old", "c1");
    let unbound = |boot: &str| PendingEntry::BootedWithoutConfig { boot_id: boot.into() };
    let leave = PendingOutcome::RollBack("its deployment booted twice without its configuration".into());
    for (events, expected) in [
        (vec![], PendingOutcome::WriteConfig),
        (vec![unbound(BOOT)], PendingOutcome::WriteConfig),
        (vec![unbound(EARLIER)], leave.clone()),
        (vec![unbound(EARLIER), unbound(BOOT)], leave),
    ] {
        assert_eq!(fate_of("c2", "new", &old, &pending(EARLIER, &events)), expected, "{events:?}");
    }
}

#[test]
fn generation_is_rolled_back_after_too_many_boots_or_a_rejection() {
    let (old, new) = (record("old", "c1"), record("new", "c2"));
    let booted = |boot: &str| PendingEntry::Booted { boot_id: boot.into() };
    let rejected = PendingEntry::Rejected { boot_id: EARLIER.into(), reason: "it is sick".into() };
    let (leave, left) =
        (PendingOutcome::RollBack("it is sick".into()), PendingOutcome::RolledBack("it is sick".into()));
    let here = |events: &[PendingEntry]| fate_of("c2", "new", &new, &pending(EARLIER, events));
    let back = |events: &[PendingEntry]| fate_of("c1", "old", &old, &pending(EARLIER, events));
    assert_eq!(here(&[booted("a"), booted("b"), booted(BOOT)]), PendingOutcome::Booted);
    let three = [booted("a"), booted("b"), booted("c")];
    assert!(matches!(here(&three), PendingOutcome::RollBack(reason) if reason.contains("booted 3 times")));
    let shut_down = PendingEntry::ShutDown { boot_id: "b".into() };
    let orderly = [booted("a"), booted("b"), shut_down, booted("c")];
    assert_eq!(here(&orderly), PendingOutcome::Booted, "an orderly shutdown does not count");
    let rebooted = |boots: u32| -> Vec<_> {
        let shut_down = |boot: String| PendingEntry::ShutDown { boot_id: boot.as_str().into() };
        (0..boots).flat_map(|boot| [booted(&boot.to_string()), shut_down(boot.to_string())]).collect()
    };
    assert_eq!(here(&rebooted(9)), PendingOutcome::Booted);
    assert!(
        matches!(here(&rebooted(10)), PendingOutcome::RollBack(reason) if reason.starts_with("it was booted 10 times, and"))
    );
    assert_eq!(here(&[booted("a"), rejected.clone()]), leave);
    assert_eq!(back(&[booted("a"), rejected]), left);
    assert!(
        matches!(back(&[booted("a")]), PendingOutcome::RolledBack(reason) if reason.starts_with("before its boot check passed"))
    );
    let finalized = PendingEntry::Finalized { boot_id: EARLIER.into() };
    assert!(
        matches!(back(&[finalized]), PendingOutcome::RolledBack(reason) if reason.starts_with("it did not come up"))
    );
    let deployment = deployment("c2");
    let tried = pending(EARLIER, &three);
    let seen = BootObservation {
        deployment: &deployment,
        argument: Some(&"new".into()),
        record: Some(&new),
        pending: Some(&tried),
        choice: BootChoice::Other,
    };
    assert_eq!(
        pending_outcome(seen, &BOOT.into(), None),
        PendingOutcome::Booted,
        "without a limit it may boot any number of times"
    );
}
