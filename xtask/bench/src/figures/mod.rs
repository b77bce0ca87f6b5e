//! The figures, by name.

mod footprint;
mod images;
mod neighbourhood;
mod reading;
mod writing;

use anyhow::Result;

use super::table::FigureRow;
use crate::BenchRun;

/// The baselines' names in the table, and their description.
pub const REWRITE: &str = "one by one";
pub const BATCH: &str = "all at once";
pub const HASH: &str = "hash";
pub const TRUE: &str = "/bin/true";
pub const ONE_LAYER: &str = "one layer at a time";
pub const BASELINES: &str = "\
- `one by one` writes each file beside its destination, fsyncs and renames it, and then goes to the next, as the
  machine-config-daemon does. It syncs no directory, makes no plan and keeps no way back.
- `all at once` writes all files beside their destinations, fsyncs 32 at a time, renames all, and then fsyncs the
  directories. It makes no plan and keeps no way back either.
- `hash` reads each file once and hashes it with SHA-256.
- `/bin/true` is a process that does nothing.
- The executable is that of a release build, stripped: `flameholder` without the worker, which alone links libostree. Its
  size does not depend on the machine's load; all other figures need an idle one.
- Peak resident memory is that of the process at its exit, with the pages of the executable that were mapped.
- `one layer at a time` is the same update with `FLAMEHOLDER_PARALLEL_FETCHES=1`.
- A ratio is that of the medians; in brackets, the lowest and the highest of a round.
";

/// A measurement by its name on the command line.
#[derive(Debug)]
pub struct BenchFigure {
    pub name: &'static str,
    pub measure: fn(&BenchRun) -> Result<FigureResult>,
}

/// Rows of the table, and notes that their reader needs.
#[derive(Debug, Default)]
pub struct FigureResult {
    pub rows: Vec<FigureRow>,
    pub notes: Vec<String>,
}

impl From<Vec<FigureRow>> for FigureResult {
    fn from(rows: Vec<FigureRow>) -> Self {
        Self { rows, notes: Vec::new() }
    }
}

pub const FIGURES: &[BenchFigure] = &[
    figure("apply-100", |bench| writing::all_changed(bench, 100)),
    figure("apply-1000", |bench| writing::all_changed(bench, 1000)),
    figure("apply-5000", |bench| writing::all_changed(bench, 5000)),
    figure("one-change", writing::one_changed),
    figure("slow-flush", writing::slow_flush),
    figure("dirty-pages", writing::dirty_pages),
    figure("neighbour", neighbourhood::clean),
    figure("neighbour-dirty", neighbourhood::dirty),
    figure("plan", reading::plan),
    figure("no-op", reading::nothing_to_do),
    figure("verify", reading::verify),
    figure("image-distant", images::distant),
    figure("image-near", images::near),
    figure("start-up", footprint::start_up),
    figure("memory", footprint::memory),
    figure("size", footprint::size),
];

const fn figure(name: &'static str, measure: fn(&BenchRun) -> Result<FigureResult>) -> BenchFigure {
    BenchFigure { name, measure }
}
