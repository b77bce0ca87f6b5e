//! When the power goes: the steps of a change as the console tells them, and how densely each is cut.

use std::ops::Range;

/// A part of the way from one system to the other.
#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    /// What the console says when it marker.
    marker: &'static str,
    /// How long the guest runs between two cuts, in milliseconds.
    pub interval_ms: Range<u64>,
    /// After so many cuts they come at a tenth of the pace.
    pub dense_cuts: usize,
}

/// In this order. The boot entries are written at the end of `finalizing`, and no longer than that takes.
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

/// How far the console says that the host is.
#[derive(Debug, Default)]
pub struct Progress {
    step: usize,
    /// How much of the console was read to the end of.
    offset: usize,
}

impl Progress {
    pub fn step(&self) -> &'static Step {
        &STEPS[self.step]
    }

    /// Listens to all that was said so far.
    pub fn follow(&mut self, console: &str) {
        let console = plain(console);
        // A step may be too short to be told of.
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

/// Without colours and cursor movements.
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
