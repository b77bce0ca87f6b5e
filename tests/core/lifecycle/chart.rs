//! The chart of `docs/lifecycle.md`, drawn from the function itself.

use std::collections::BTreeMap;
use std::path::Path;

use flameholder::core::lifecycle::{Class, Event, Lifecycle, Look, Phase, Prepared, Standing, Then};

use crate::lifecycle::{problem, wish};

const CHART: &str = "docs/lifecycle.md";
const BEGIN: &str =
    "<!-- drawn from src/core/lifecycle by tests/core/lifecycle; FLAMEHOLDER_BLESS=1 draws it again -->\n";
const END: &str = "<!-- end of what is drawn -->\n";

pub(crate) fn all_phases() -> Vec<Phase> {
    let target = wish("b");
    let draining = |then, is_late| Phase::Draining { target: target.clone(), then, is_late };
    vec![
        Phase::Looking,
        Phase::Idle,
        Phase::Fetching { target: target.clone() },
        Phase::Preparing { target: target.clone() },
        draining(Then::Apply, false),
        draining(Then::Arm, false),
        draining(Then::Arm, true),
        Phase::Applying { target: target.clone() },
        Phase::Arming { target: target.clone() },
        Phase::Rebooting { target: target.clone(), blocked_by: None },
        Phase::GoingDown { target: target.clone() },
        Phase::Judging { complaint: None },
        Phase::Verifying,
        Phase::Uncordoning { is_late: false },
        Phase::Uncordoning { is_late: true },
        Phase::Done,
        Phase::Drifted { reason: "/etc/a".into() },
        Phase::Held { reason: "it was not healthy".into() },
        Phase::Waiting { problem: problem(Class::Host) },
        Phase::Stopping,
    ]
}

pub(crate) fn all_events() -> Vec<Event> {
    let look = |standing| Event::Looked(Look { runs: Some(wish("a")), standing, ..Look::default() });
    vec![
        Event::Wished(wish("b")),
        Event::Wished(wish("c")),
        look(Standing::Settled),
        look(Standing::OnProbation { complaint: None }),
        Event::Fetched,
        Event::Prepared(Prepared::Nothing),
        Event::Prepared(Prepared::Ready { drain: false }),
        Event::Prepared(Prepared::Ready { drain: true }),
        Event::Prepared(Prepared::Staged),
        Event::Drained,
        Event::Applied,
        Event::Blocked { by: "somebody".into() },
        Event::Armed,
        Event::Accepted,
        Event::Verified,
        Event::Deviates { reason: "/etc/a".into() },
        Event::Uncordoned,
        Event::Failed(problem(Class::Host)),
        Event::Due,
        Event::Touched,
        Event::Nudged,
        Event::Stop,
    ]
}

fn word(event: &Event) -> &'static str {
    match event {
        Event::Wished(_) => "another wish",
        Event::Looked(Look { standing: Standing::Settled, .. }) => "settled",
        Event::Looked(_) => "on probation",
        Event::Fetched => "fetched",
        Event::Prepared(Prepared::Nothing) => "nothing to do",
        Event::Prepared(Prepared::Ready { drain: false }) => "live",
        Event::Prepared(Prepared::Ready { drain: true }) => "live, drained",
        Event::Prepared(Prepared::Staged) => "staged",
        Event::Drained => "drained",
        Event::Applied => "applied",
        Event::Blocked { .. } => "blocked",
        Event::Armed => "armed",
        Event::Accepted => "accepted",
        Event::Verified => "verified",
        Event::Deviates { .. } => "deviates",
        Event::Uncordoned => "uncordoned",
        Event::Failed(_) => "failed",
        Event::Due => "due",
        Event::Touched => "touched",
        Event::Nudged => "nudged",
        Event::Stop => "stop",
    }
}

/// All ways from one phase to another. From each one [`Event::Stop`] leads to its end.
fn edges() -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut edges: BTreeMap<_, Vec<_>> = BTreeMap::new();
    // What runs is what is wanted in one of them.
    for runs in ["a", "b"] {
        for phase in all_phases() {
            for event in all_events().into_iter().filter(|event| *event != Event::Stop) {
                let from = phase.name();
                let at = Lifecycle {
                    phase: phase.clone(),
                    wish: Some(wish("b")),
                    runs: Some(wish(runs)),
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
    format!("```mermaid\nstateDiagram-v2\n    [*] --> Looking\n{}```\n", lines.collect::<String>())
}

#[test]
fn the_chart_is_what_the_function_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CHART);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the chart begins");
    let (drawn, after) = rest.split_once(END).expect("the chart ends");
    if std::env::var_os("FLAMEHOLDER_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", draw())).unwrap();
        return;
    }
    assert_eq!(drawn, draw(), "{CHART} is not what the function does; FLAMEHOLDER_BLESS=1 draws it again");
}
