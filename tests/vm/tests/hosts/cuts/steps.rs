//! Steps of a change, as the console reports them, and the density of the power cuts in each.

use std::ops::Range;

/// A step between two systems.
#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    /// Text on the console at the start of the step.
    marker: &'static str,
    /// Range of the milliseconds that the guest runs between two cuts.
    pub interval_ms: Range<u64>,
    /// Number of cuts after which the guest runs ten times as long between two cuts.
    pub dense_cuts: usize,
}

/// Steps in the order in which a host passes them. The boot entries are written at the end of `finalizing`.
pub const STEPS: [Step; 9] = [
    step("running", "", 100..500, 4),
    step("shutdown", "Stopped target", 100..500, 8),
    step("finalizing", "Stopping ostree-finalize-staged.s", 20..60, 200),
    step("finalized", "Stopped ostree-finalize-staged.s", 30..200, 20),
    step("restarting", "reboot: Restarting system", 300..2000, 6),
    step("switch root", "Switch Root", 50..300, 20),
    step("activating", "Starting flameholder-activate.s", 15..60, 60),
    step("activated", "Finished flameholder-activate.s", 150..500, 12),
    step("boot check", "Finished flameholder-recover.s", 30..200, 40),
];

const fn step(name: &'static str, marker: &'static str, interval_ms: Range<u64>, dense_cuts: usize) -> Step {
    Step { name, marker, interval_ms, dense_cuts }
}

/// Progress of a host through the steps, by its console.
#[derive(Debug, Default)]
pub struct Progress {
    step: usize,
    /// Length of the console output that has been searched.
    offset: usize,
}

impl Progress {
    pub fn step(&self) -> &'static Step {
        &STEPS[self.step]
    }

    /// Advance to the last step that the console reports.
    pub fn follow(&mut self, console: &str) {
        let console = plain(console);
        // A step may be too short to be reported.
        while let Some((step, at)) = self.next(&console) {
            (self.step, self.offset) = (step, at);
        }
    }

    fn next(&self, console: &str) -> Option<(usize, usize)> {
        let new = console.get(self.offset..)?;
        let later = STEPS.iter().enumerate().skip(self.step + 1);
        later
            .filter_map(|(step, next)| new.find(next.marker).map(|at| (step, self.offset + at)))
            .min_by_key(|(_, at)| *at)
    }
}

/// Remove colours and cursor movements.
fn plain(console: &str) -> String {
    let mut pieces = console.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |mut plain, piece| {
        let end = piece.find(|letter: char| letter.is_ascii_alphabetic()).map_or(piece.len(), |at| at + 1);
        plain.push_str(&piece[end..]);
        plain
    })
}

#[test]
fn step_is_recognized_in_console_output_with_colours() {
    let mut progress = Progress::default();
    progress.follow("\u{1b}[0m Stopping \u{1b}[0;1;39mostree-finalize-staged.se\u{2026}");
    assert_eq!(progress.step().name, "finalizing");
    progress.follow(
        "\u{1b}[0m Stopping \u{1b}[0;1;39mostree-finalize-staged.se\u{2026} reboot: Restarting system",
    );
    assert_eq!(progress.step().name, "restarting");
}
