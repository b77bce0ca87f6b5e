//! Sequences in which the agent once violated an invariant.

use super::step::ConfigKind::{Healthy, Live, Unhealthy, WithImage};
use super::step::Obstacle::{FullBoot, FullVar};
use super::step::OperatorAct::{Deploy, Undeploy};
use super::step::{BLOCKED, ConfigKind, DamageKind, Obstacle, StateFile, Step};
use super::{prepared_host, report, run_sequence};

const fn update(kind: ConfigKind) -> Step {
    Step::Update { kind, obstacle: None }
}

const fn hindered(kind: ConfigKind, obstacle: Obstacle) -> Step {
    Step::Update { kind, obstacle: Some(obstacle) }
}

const REBOOT: Step = Step::Reboot { obstacle: None };
const STAGED_BY_HAND: Step = Step::Act(Deploy { is_staged: true });
const LOCK_LOST: Step = Step::Damage(StateFile::Var("lock"), DamageKind::Remove);

/// The agent's directory in `/etc` was about to be removed with the last file of a config in it, so that the mark of the
/// next generation could not be written beside the earlier one.
const EMPTIED_DIRECTORY: [Step; 9] = [
    Step::UpdateAgain,
    REBOOT,
    Step::CutBoot,
    REBOOT,
    Step::OtherEntry,
    update(Unhealthy),
    Step::RebootAnd(Undeploy(3)),
    Step::CutBoot,
    hindered(WithImage, FullBoot(4)),
];

/// The pin was taken off while the earlier deployment was booted from the boot menu, with an unconfirmed generation as
/// the default entry.
const LEFT_FOR_ONE_BOOT: [Step; 8] = [
    hindered(Healthy, FullVar(64)),
    update(Healthy),
    LOCK_LOST,
    update(Unhealthy),
    update(Healthy),
    Step::Damage(BLOCKED, DamageKind::Truncate),
    Step::OtherEntry,
    Step::RebootAnd(Deploy { is_staged: false }),
];

/// A foreign deployment with the kernel arguments of the pending generation was taken for that, and its workload waited
/// for a config that the restored pending record does not have.
const COPIED_ARGUMENTS: [Step; 10] = [
    update(Unhealthy),
    Step::RebootAnd(Undeploy(3)),
    update(Live),
    REBOOT,
    STAGED_BY_HAND,
    update(WithImage),
    STAGED_BY_HAND,
    Step::OtherAgent,
    Step::OtherEntry,
    Step::CutBoot,
];

/// The pin was taken off while an unconfirmed generation was booted that could not be rolled back, because an update that
/// needed no reboot had removed its pending record.
const LIVE_UPDATE_BEFORE_ROLLBACK: [Step; 4] = [
    update(Unhealthy),
    Step::Reboot { obstacle: Some(FullBoot(0)) },
    update(Live),
    Step::RebootAnd(Deploy { is_staged: false }),
];

/// An update of an unconfirmed generation that could not be rolled back took the pin off the deployment before that, which
/// finalization then removed.
const UPDATE_BEFORE_ROLLBACK: [Step; 4] =
    [update(Unhealthy), Step::Reboot { obstacle: Some(FullBoot(0)) }, update(Unhealthy), Step::OtherEntry];

#[test]
fn sequences_of_earlier_faults_break_no_invariant() {
    let prepared = prepared_host();
    let sequences = [
        &EMPTIED_DIRECTORY[..],
        &LEFT_FOR_ONE_BOOT,
        &COPIED_ARGUMENTS,
        &LIVE_UPDATE_BEFORE_ROLLBACK,
        &UPDATE_BEFORE_ROLLBACK,
    ];
    for steps in sequences {
        if let Err(violation) = run_sequence(&prepared, steps, None) {
            panic!("{}", report(0, 0, steps, &violation));
        }
    }
}
