//! When the power goes: the steps of a change as the console tells them, and how densely each is cut.

use std::ops::Range;

/// A part of the way from one system to the other.
#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    /// What the console says when it begins.
    begins: &'static str,
    /// How long the guest runs between two cuts, in milliseconds.
    pub between: Range<u64>,
    /// After so many cuts they come at a tenth of the pace.
    pub dense: usize,
}

/// In this order. The boot entries are written at the end of `finalizing`, and no longer than that takes.
pub const STEPS: [Step; 9] = [
    step("running", "", 100..500, 4),
    step("going down", "Stopped target", 100..500, 8),
    step("finalizing", "Stopping ostree-finalize-staged.s", 20..60, 200),
    step("finalized", "Stopped ostree-finalize-staged.s", 30..200, 20),
    step("starting", "reboot: Restarting system", 300..2000, 6),
    step("new system", "Switch Root", 50..300, 20),
    step("activating", "Starting flameholder-activate.s", 15..60, 60),
    step("activated", "Finished flameholder-activate.s", 150..500, 12),
    step("settling", "Finished flameholder-recover.s", 30..200, 40),
];

const fn step(name: &'static str, begins: &'static str, between: Range<u64>, dense: usize) -> Step {
    Step { name, begins, between, dense }
}

/// How far the console says that the host is.
#[derive(Debug, Default)]
pub struct Progress {
    step: usize,
    /// How much of the console was read to the end of.
    heard: usize,
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
            (self.step, self.heard) = (step, at);
        }
    }

    fn next(&self, console: &str) -> Option<(usize, usize)> {
        let new = console.get(self.heard..)?;
        let later = STEPS.iter().enumerate().skip(self.step + 1);
        later
            .filter_map(|(step, next)| new.find(next.begins).map(|at| (step, self.heard + at)))
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
fn the_console_is_followed_through_its_colours() {
    let mut progress = Progress::default();
    progress.follow("\u{1b}[0m Stopping \u{1b}[0;1;39mostree-finalize-staged.se\u{2026}");
    assert_eq!(progress.step().name, "finalizing");
    progress.follow(
        "\u{1b}[0m Stopping \u{1b}[0;1;39mostree-finalize-staged.se\u{2026} reboot: Restarting system",
    );
    assert_eq!(progress.step().name, "starting");
}
