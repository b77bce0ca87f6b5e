//! State chart of `docs/development/lifecycle.md`, and the table beside it, drawn from the state machine itself.

use std::collections::BTreeMap;
use std::path::Path;

use flameholder::core::daemon::grant::{GrantDelay, GrantWait};
use flameholder::core::daemon::lifecycle::{
    AfterDrain, BootCheckState, DaemonEvent, DaemonPhase, HostObservation, Lifecycle, ProblemClass,
    TrustFailure,
};
use flameholder::core::pinned_images::pin_state::PinState;
use flameholder::core::plan::remaining_work::{LiveDisruption, RemainingWork};
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

use crate::lifecycle::{desired, problem};

const PAGE: &str = "docs/development/lifecycle.md";
const CHART: &str = "docs/development/lifecycle.svg";
const BEGIN: &str = "<!-- drawn from src/core/daemon/lifecycle by tests/core/lifecycle; FLAMEHOLDER_BLESS=1 draws it again -->\n";
const END: &str = "<!-- end of what is drawn -->\n";

pub(crate) fn delay() -> GrantDelay {
    let waits_for = GrantWait::Slot { lock: "the lock".into(), reason: "all slots are held".into() };
    GrantDelay { waits_for, retry_after: std::time::Duration::from_secs(60) }
}

fn drain_delay() -> GrantDelay {
    let waits_for = GrantWait::Drain { reason: "the pod a/b".into() };
    GrantDelay { waits_for, ..delay() }
}

pub(crate) fn all_phases() -> Vec<DaemonPhase> {
    let target = desired("b");
    let draining =
        |then, is_late| DaemonPhase::Draining { target: target.clone(), next: then, is_overdue: is_late };
    let awaiting = |wait: Option<GrantDelay>, is_requested| DaemonPhase::AwaitingGrant {
        target: target.clone(),
        next: AfterDrain::Unlock,
        wait,
        is_requested,
    };
    vec![
        DaemonPhase::Observing,
        DaemonPhase::Idle,
        DaemonPhase::Fetching { target: target.clone() },
        DaemonPhase::Preparing { target: target.clone() },
        awaiting(None, true),
        awaiting(Some(delay()), false),
        awaiting(Some(delay()), true),
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
        DaemonEvent::PreparedUnderPolicy(RemainingWork::Nothing),
        DaemonEvent::PreparedUnderPolicy(RemainingWork::Live(LiveDisruption { drain: false })),
        DaemonEvent::PreparedUnderPolicy(RemainingWork::Live(LiveDisruption { drain: true })),
        DaemonEvent::PreparedUnderPolicy(RemainingWork::Reboot(())),
        DaemonEvent::GrantDelayed(delay()),
        DaemonEvent::Granted,
        DaemonEvent::GrantEnded,
        DaemonEvent::HooksNotified,
        DaemonEvent::Drained,
        DaemonEvent::DrainDelayed("the pod a/b".into()),
        DaemonEvent::DrainGivenUp(drain_delay()),
        DaemonEvent::Applied,
        DaemonEvent::Inhibited { by: "a backup".into() },
        DaemonEvent::Unlocked,
        DaemonEvent::RebootAccepted,
        DaemonEvent::Verified,
        DaemonEvent::Drifted { reason: "/etc/a".into() },
        DaemonEvent::Uncordoned,
        DaemonEvent::UncordonDelayed("the API server cannot be reached".into()),
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
        DaemonEvent::Prepared(RemainingWork::Nothing)
        | DaemonEvent::PreparedUnderPolicy(RemainingWork::Nothing) => "nothing to do",
        DaemonEvent::Prepared(RemainingWork::Live(LiveDisruption { drain: false }))
        | DaemonEvent::PreparedUnderPolicy(RemainingWork::Live(LiveDisruption { drain: false })) => "live",
        DaemonEvent::Prepared(RemainingWork::Live(LiveDisruption { drain: true })) => "live, drained",
        DaemonEvent::Prepared(RemainingWork::Reboot(())) => "staged",
        DaemonEvent::PreparedUnderPolicy(_) => "reboot policy",
        DaemonEvent::GrantDelayed(_) => "not granted yet",
        DaemonEvent::DrainDelayed(_) => "drain waits",
        DaemonEvent::DrainGivenUp(_) => "drain took too long",
        DaemonEvent::Granted => "granted",
        DaemonEvent::GrantEnded => "grant ended",
        DaemonEvent::HooksNotified => "hooks notified",
        DaemonEvent::Drained => "drained",
        DaemonEvent::Applied => "applied",
        DaemonEvent::Inhibited { .. } => "inhibited",
        DaemonEvent::Unlocked => "unlocked",
        DaemonEvent::RebootAccepted => "reboot accepted",
        DaemonEvent::Verified => "verified",
        DaemonEvent::Drifted { .. } => "drifted",
        DaemonEvent::Uncordoned => "uncordoned",
        DaemonEvent::UncordonDelayed(_) => "uncordon fails",
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

/// A transition that many phases have in common: the chart would be a web of them, so that a table lists them.
fn is_common(from: &str, to: &str, words: &[&str]) -> bool {
    let only = |allowed: &[&str]| words.iter().all(|word| allowed.contains(word));
    from == to
        || from == "BackingOff"
        || from == "Blocked"
        || (to == "BackingOff" && only(&["failed"]))
        || (to == "Fetching" && only(&["another desired config"]))
        || (to == "Observing" && only(&["timer expired", "state changed"]))
}

fn draw_table() -> String {
    let mut rows: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for ((from, to), words) in edges() {
        if is_common(from, to, &words) {
            let to = if from == to { "the same phase" } else { to };
            rows.entry((to, words.join(" / "))).or_default().push(from);
        }
    }
    let rows =
        rows.into_iter().map(|((to, words), from)| format!("| {} | {words} | {to} |\n", from.join(", ")));
    format!("| from | event | to |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// The transitions of the chart, as a graph of the DOT language.
fn graph() -> String {
    let mut dot = String::from("digraph lifecycle {\n");
    // In the order of an update, which the drawing follows.
    let order: Vec<_> = all_phases().iter().map(DaemonPhase::name).collect();
    let place = |name: &str| order.iter().position(|phase| *phase == name);
    let mut edges: Vec<_> = edges().into_iter().collect();
    edges.sort_by_key(|((from, to), _)| (place(from), place(to)));
    for ((from, to), words) in edges {
        if !is_common(from, to, &words) {
            dot.push_str(&format!("  {from} -> {to} [label=\"{}\"]\n", words.join(" / ")));
        }
    }
    dot + "}\n"
}

/// Draw the chart. The drawing differs a little from one run to the next, so that the graph is a comment in it, by which the
/// chart is compared.
fn draw_chart() -> String {
    let parsed = DotParser::new(&graph()).process().expect("the graph is well formed");
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&parsed);
    let mut svg = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut svg);
    let drawn = svg.finalize();
    let lines: String = drawn.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{lines}<!--\n{}-->\n", graph().replace("->", "→"))
}

#[test]
fn chart_in_the_documentation_matches_the_state_machine() {
    let [page, chart] = [PAGE, CHART].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the page contains the table's first marker");
    let (table, after) = rest.split_once(END).expect("the page contains the table's last marker");
    if std::env::var_os("FLAMEHOLDER_BLESS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{}{END}{after}", draw_table())).unwrap();
        std::fs::write(&chart, draw_chart()).unwrap();
        return;
    }
    assert_eq!(
        table,
        draw_table(),
        "{PAGE} differs from the state machine; FLAMEHOLDER_BLESS=1 draws it again"
    );
    let drawn = std::fs::read_to_string(&chart).unwrap();
    let (_, graph_of_chart) = drawn.split_once("<!--\n").expect("the chart has its graph in a comment");
    let expected = format!("{}-->\n", graph().replace("->", "→"));
    assert_eq!(
        graph_of_chart, expected,
        "{CHART} differs from the state machine; FLAMEHOLDER_BLESS=1 draws it again"
    );
}
