//! Steps of a sequence, and their random choice.

use super::random::RandomNumbers;

/// Longest and shortest sequence.
const STEPS: [usize; 2] = [6, 10];

/// One event in the life of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// `flameholder apply` of a new config.
    Update { kind: ConfigKind, obstacle: Option<Obstacle> },
    /// `flameholder apply` of a config that was applied before.
    UpdateAgain,
    /// `flameholder retry`.
    Retry,
    /// An orderly shutdown and a boot.
    Reboot { obstacle: Option<Obstacle> },
    /// A power cut and a boot.
    PowerCut { obstacle: Option<Obstacle> },
    /// An orderly shutdown and a boot, with an act of an operator before the boot check.
    RebootAnd(OperatorAct),
    /// A boot whose power goes after the activation.
    CutBoot,
    /// A boot from the second entry of the boot menu.
    OtherEntry,
    /// An act of an operator.
    Act(OperatorAct),
    /// Removal or corruption of a state file.
    Damage(StateFile, DamageKind),
    /// Exchange of the agent for the other release.
    OtherAgent,
}

/// Act of an operator with ostree's own program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorAct {
    /// `ostree admin deploy` of the booted commit, staged or at once.
    Deploy { is_staged: bool },
    /// `ostree admin undeploy` of this entry, modulo their number.
    Undeploy(usize),
}

/// Config of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigKind {
    Healthy,
    /// Its boot check fails.
    Unhealthy,
    /// It differs from the booted one in a file that needs no reboot.
    Live,
    /// It comes with another OS image.
    WithImage,
}

/// Obstacle during one command or boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// `/boot` has this number of KiB free.
    FullBoot(usize),
    /// `/var` has this number of KiB free.
    FullVar(usize),
    /// Another agent holds its lock.
    OwnLock,
    /// Another program holds libostree's lock.
    SysrootLock,
    /// The file system of this directory below `/var` is mounted after the activation.
    LateMount(&'static str),
}

/// State of the agent on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateFile {
    /// File below `/var/lib/flameholder`, or all of that directory.
    Var(&'static str),
    /// File below `/etc` of the booted deployment.
    Etc(&'static str),
    /// File below `/run`.
    Run(&'static str),
}

pub(super) const RECORD: StateFile = StateFile::Etc("flameholder/generation");
pub(super) const MARK: StateFile = StateFile::Etc("flameholder/unconfirmed");
pub(super) const PENDING: StateFile = StateFile::Var("pending");
pub(super) const BLOCKED: StateFile = StateFile::Var("blocked");
pub(super) const CONFIG: StateFile = StateFile::Etc("machine-config-daemon/currentconfig");
pub(super) const WHOLE_STATE: StateFile = StateFile::Var("");

const STATE_FILES: [StateFile; 11] = [
    RECORD,
    MARK,
    PENDING,
    BLOCKED,
    WHOLE_STATE,
    StateFile::Var("active"),
    StateFile::Var("pinned"),
    StateFile::Var("objects"),
    StateFile::Var("lock"),
    CONFIG,
    StateFile::Run("flameholder/boot-check.json"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DamageKind {
    Remove,
    Empty,
    /// One bit in the middle is another.
    Flip,
    /// The second half is missing.
    Truncate,
    /// A newer release wrote it, and means another config by it.
    Newer,
}

/// Draw the steps of a sequence.
pub(super) fn draw_steps(numbers: &mut RandomNumbers) -> Vec<Step> {
    let count = STEPS[0] + numbers.below(STEPS[1] - STEPS[0] + 1);
    (0..count).map(|_| draw_step(numbers)).collect()
}

fn draw_step(numbers: &mut RandomNumbers) -> Step {
    use DamageKind::{Empty, Flip, Newer, Remove, Truncate};
    match numbers.below(20) {
        0..=5 => Step::Update { kind: draw_kind(numbers), obstacle: draw_command_obstacle(numbers) },
        6..=8 => Step::Reboot { obstacle: draw_boot_obstacle(numbers) },
        9 => Step::RebootAnd(draw_act(numbers)),
        10 => Step::PowerCut { obstacle: draw_boot_obstacle(numbers) },
        11 => Step::CutBoot,
        12 => Step::OtherEntry,
        13 | 14 => Step::Act(draw_act(numbers)),
        15..=17 => {
            let file = numbers.one_of(&STATE_FILES);
            Step::Damage(file, numbers.one_of(&[Remove, Remove, Empty, Flip, Truncate, Newer]))
        }
        18 => Step::OtherAgent,
        _ => numbers.one_of(&[Step::UpdateAgain, Step::Retry]),
    }
}

fn draw_act(numbers: &mut RandomNumbers) -> OperatorAct {
    if numbers.once_in(2) {
        return OperatorAct::Undeploy(numbers.below(4));
    }
    OperatorAct::Deploy { is_staged: numbers.once_in(2) }
}

fn draw_kind(numbers: &mut RandomNumbers) -> ConfigKind {
    use ConfigKind::{Healthy, Live, Unhealthy, WithImage};
    numbers.one_of(&[Healthy, Healthy, Healthy, Unhealthy, Unhealthy, Live, WithImage])
}

fn draw_command_obstacle(numbers: &mut RandomNumbers) -> Option<Obstacle> {
    let free = numbers.one_of(&[0, 0, 4, 16, 64]);
    match numbers.below(12) {
        0 => Some(Obstacle::FullBoot(free)),
        1 => Some(Obstacle::FullVar(free)),
        2 => Some(Obstacle::OwnLock),
        3 => Some(Obstacle::SysrootLock),
        _ => None,
    }
}

fn draw_boot_obstacle(numbers: &mut RandomNumbers) -> Option<Obstacle> {
    let free = numbers.one_of(&[0, 0, 4, 16, 64]);
    match numbers.below(10) {
        0 => Some(Obstacle::FullBoot(free)),
        1 => Some(Obstacle::FullVar(free)),
        2 => Some(Obstacle::LateMount(numbers.one_of(&["usrlocal", "home"]))),
        _ => None,
    }
}
