//! State chart of `docs/development/lifecycle.md`, drawn from the state machine itself.

use std::collections::BTreeMap;
use std::path::Path;

use flameholder::core::daemon::lifecycle::{
    AfterDrain, BootCheckState, DaemonEvent, DaemonPhase, HostObservation, Lifecycle, ProblemClass,
    TrustFailure,
};
use flameholder::core::pinned_images::pin_state::PinState;
use flameholder::core::plan::remaining_work::{LiveDisruption, RemainingWork};

use crate::lifecycle::{desired, problem};

const CHART: &str = "docs/development/lifecycle.md";
const BEGIN: &str = "<!-- drawn from src/core/daemon/lifecycle by tests/core/lifecycle; FLAMEHOLDER_BLESS=1 draws it again -->\n";
const END: &str = "<!-- end of what is drawn -->\n";

pub(crate) fn all_phases() -> Vec<DaemonPhase> {
    let target = desired("b");
    let draining =
        |then, is_late| DaemonPhase::Draining { target: target.clone(), next: then, is_overdue: is_late };
    vec![
        DaemonPhase::Observing,
        DaemonPhase::Idle,
        DaemonPhase::Fetching { target: target.clone() },
        DaemonPhase::Preparing { target: target.clone() },
        draining(AfterDrain::Apply, false),
        draining(AfterDrain::Unlock, false),
        draining(AfterDrain::Unlock, true),
        DaemonPhase::Applying { target: target.clone() },
        DaemonPhase::Unlocking { target: target.clone() },
        DaemonPhase::Rebooting { target: target.clone(), inhibited_by: None },
        DaemonPhase::ShuttingDown { target: target.clone() },
        DaemonPhase::CheckingBoot { failed_checks: None },
        DaemonPhase::RollingBack { reason: "it was not healthy".into() },
        DaemonPhase::Verifying,
        DaemonPhase::Uncordoning { is_overdue: false },
        DaemonPhase::Uncordoning { is_overdue: true },
        DaemonPhase::Done,
        DaemonPhase::Drifted { reason: "/etc/a".into() },
        DaemonPhase::Blocked { reason: "it was not healthy".into() },
        DaemonPhase::BackingOff { problem: problem(ProblemClass::Host) },
        DaemonPhase::Stopping,
    ]
}

pub(crate) fn all_events() -> Vec<DaemonEvent> {
    let look = |boot_check| {
        DaemonEvent::Observed(HostObservation {
            current: Some(desired("a")),
            boot_check,
            ..HostObservation::default()
        })
    };
    vec![
        DaemonEvent::DesiredChanged(desired("b")),
        DaemonEvent::DesiredChanged(desired("c")),
        DaemonEvent::NoDesiredConfig("run `flameholder adopt`".into()),
        look(BootCheckState::Confirmed),
        look(BootCheckState::Unconfirmed { failed_checks: None }),
        look(BootCheckState::RollingBack { reason: "it was not healthy".into() }),
        DaemonEvent::Fetched,
        DaemonEvent::Prepared(RemainingWork::Nothing),
        DaemonEvent::Prepared(RemainingWork::Live(LiveDisruption { drain: false })),
        DaemonEvent::Prepared(RemainingWork::Live(LiveDisruption { drain: true })),
        DaemonEvent::Prepared(RemainingWork::Reboot(())),
        DaemonEvent::Drained,
        DaemonEvent::Applied,
        DaemonEvent::Inhibited { by: "a backup".into() },
        DaemonEvent::Unlocked,
        DaemonEvent::RebootAccepted,
        DaemonEvent::Verified,
        DaemonEvent::Drifted { reason: "/etc/a".into() },
        DaemonEvent::Uncordoned,
        DaemonEvent::Failed(problem(ProblemClass::Host)),
        DaemonEvent::TimerExpired,
        DaemonEvent::FilesChanged,
        DaemonEvent::StateChanged,
        DaemonEvent::TrustApplied(None),
        DaemonEvent::TrustFailed(TrustFailure {
            problem: problem(ProblemClass::Host),
            failures: 1,
            is_of_restart: false,
        }),
        DaemonEvent::KubeletRestarted,
        DaemonEvent::PinsChanged(PinState::default()),
        DaemonEvent::Stop,
    ]
}

fn word(event: &DaemonEvent) -> &'static str {
    match event {
        DaemonEvent::DesiredChanged(_) => "another desired config",
        DaemonEvent::NoDesiredConfig(_) => "no desired config",
        DaemonEvent::Observed(HostObservation { boot_check: BootCheckState::Confirmed, .. }) => "confirmed",
        DaemonEvent::Observed(HostObservation { boot_check: BootCheckState::RollingBack { .. }, .. }) => {
            "rejected"
        }
        DaemonEvent::Observed(_) => "unconfirmed",
        DaemonEvent::Fetched => "fetched",
        DaemonEvent::Prepared(RemainingWork::Nothing) => "nothing to do",
        DaemonEvent::Prepared(RemainingWork::Live(LiveDisruption { drain: false })) => "live",
        DaemonEvent::Prepared(RemainingWork::Live(LiveDisruption { drain: true })) => "live, drained",
        DaemonEvent::Prepared(RemainingWork::Reboot(())) => "staged",
        DaemonEvent::Drained => "drained",
        DaemonEvent::Applied => "applied",
        DaemonEvent::Inhibited { .. } => "inhibited",
        DaemonEvent::Unlocked => "unlocked",
        DaemonEvent::RebootAccepted => "reboot accepted",
        DaemonEvent::Verified => "verified",
        DaemonEvent::Drifted { .. } => "drifted",
        DaemonEvent::Uncordoned => "uncordoned",
        DaemonEvent::Failed(_) => "failed",
        DaemonEvent::TimerExpired => "timer expired",
        DaemonEvent::FilesChanged => "files changed",
        DaemonEvent::StateChanged => "state changed",
        DaemonEvent::TrustApplied(_) => "trust material applied",
        DaemonEvent::TrustFailed(_) => "trust material not applied",
        DaemonEvent::KubeletRestarted => "kubelet restarted",
        DaemonEvent::PinsChanged(_) => "pins changed",
        DaemonEvent::Stop => "stop",
    }
}

/// Labels of every transition between two phases. [`DaemonEvent::Stop`] is left out: it leads from each phase
/// to the end.
fn edges() -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut edges: BTreeMap<_, Vec<_>> = BTreeMap::new();
    // With and without a difference between the current and the desired config.
    for current in ["a", "b"] {
        for phase in all_phases() {
            for event in all_events().into_iter().filter(|event| *event != DaemonEvent::Stop) {
                let from = phase.name();
                let at = Lifecycle {
                    phase: phase.clone(),
                    desired: Some(desired("b")),
                    current: Some(desired(current)),
                    ..Lifecycle::default()
                };
                let (next, _) = at.step(event.clone());
                let to = next.phase.name();
                let words = edges.entry((from, to)).or_default();
                if (from != to || next.phase != phase) && !words.contains(&word(&event)) {
                    words.push(word(&event));
                }
            }
        }
    }
    edges.retain(|_, words| !words.is_empty());
    edges
}

fn draw() -> String {
    let lines = edges();
    let lines =
        lines.iter().map(|((from, to), words)| format!("    {from} --> {to}: {}\n", words.join(" / ")));
    format!("```mermaid\nstateDiagram-v2\n    [*] --> Observing\n{}```\n", lines.collect::<String>())
}

#[test]
fn chart_in_the_documentation_matches_the_state_machine() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CHART);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the page contains the chart's first marker");
    let (drawn, after) = rest.split_once(END).expect("the page contains the chart's last marker");
    if std::env::var_os("FLAMEHOLDER_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", draw())).unwrap();
        return;
    }
    assert_eq!(drawn, draw(), "{CHART} differs from the state machine; FLAMEHOLDER_BLESS=1 draws it again");
}
