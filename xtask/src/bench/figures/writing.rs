//! Durable changes: what `flameholder apply` takes, and what writing file by file takes.

use std::cell::Cell;

use anyhow::Result;

use super::{Findings, REWRITE};
use crate::bench::Bench;
use crate::bench::dirty_pages::{DIRTY_MIB, DirtyPages, unwritten};
use crate::bench::document::{Changed, Encoding, Shape};
use crate::bench::pair::Pair;
use crate::bench::stopwatch;
use crate::bench::strace::{self, Calls};
use crate::bench::table::{Budget, Quantity, Row};
use crate::bench::turns::Side;

/// The design's budgets are for so many files.
pub const FILES: u32 = 1000;
pub const PLAIN: Shape = Shape { files: FILES, changed: Changed::All, encoding: Encoding::Plain };
const GZIP: Shape = Shape { encoding: Encoding::Gzip, ..PLAIN };
const IDLE: Budget = Budget::TimesFaster(3.0);
const UNDER_LOAD: Budget = Budget::TimesFaster(5.0);
/// What a flush costs more in `slow-flush`, in microseconds.
const DELAY: u32 = 2000;
/// The design's "handful of flushes", as a number.
const HANDFUL: u32 = 10;

/// All files changed, on a disk that has nothing else to do.
pub fn all_changed(bench: &Bench<'_>, files: u32) -> Result<Findings> {
    let budget = (files == FILES).then_some(IDLE);
    let mut rows = Vec::new();
    for (shape, spelled) in [(PLAIN, "plain"), (GZIP, "gzip")] {
        let mut pair = Pair::prepare(bench, Shape { files, ..shape })?;
        let samples =
            pair.alternate(|pair, side, edition| stopwatch::time(&mut pair.change(side, edition)))?;
        let name = format!("apply, {files} changed files, {spelled}");
        rows.push(Row::of(name, &samples, REWRITE)?.within(budget));
    }
    Ok(rows.into())
}

/// One file of many changed: time, flushes, processes.
pub fn one_changed(bench: &Bench<'_>) -> Result<Findings> {
    let mut pair = Pair::prepare(bench, Shape { changed: Changed::First, ..PLAIN })?;
    let samples = pair.alternate(|pair, side, edition| stopwatch::time(&mut pair.change(side, edition)))?;
    let name = format!("apply, 1 changed file of {FILES}");
    let [flushes, programs] = [HANDFUL, 1].map(|most| Some(Budget::AtMost(Quantity::Count(most))));
    let [ours, baseline] = calls(&pair)?;
    let rows = vec![
        Row::of(&*name, &samples, REWRITE)?,
        counted(&name, "flushes", [ours.flushes, baseline.flushes]).within(flushes),
        counted(&name, "processes", [ours.programs, baseline.programs]).within(programs),
    ];
    Ok(rows.into())
}

/// What both sides ask of the kernel for the next change, ours first.
fn calls(pair: &Pair<'_>) -> Result<[Calls; 2]> {
    let (next, log) = (pair.at().other(), pair.directory().join("calls"));
    let count = |side| strace::count(&pair.change(side, next), &log);
    Ok([count(Side::Ours)?, count(Side::Baseline)?])
}

fn counted(name: &str, what: &str, numbers: [u32; 2]) -> Row {
    let [ours, baseline] = numbers.map(Quantity::Count);
    Row::new(format!("{name}: {what}"), ours).against(baseline, REWRITE)
}

/// All files changed, where the device is slow.
pub fn slow_flush(bench: &Bench<'_>) -> Result<Findings> {
    let mut pair = Pair::prepare(bench, PLAIN)?;
    let samples = pair.alternate(|pair, side, edition| {
        stopwatch::time(&mut strace::slowed(&pair.change(side, edition), DELAY))
    })?;
    let name = format!("apply, {FILES} changed files");
    let slower = format!("{name}, a flush costs {} ms more", DELAY / 1000);
    let [ours, baseline] = calls(&pair)?;
    let rows = vec![
        Row::of(slower, &samples, REWRITE)?.within(Some(UNDER_LOAD)),
        counted(&name, "flushes", [ours.flushes, baseline.flushes]),
    ];
    let note = "slow-flush: strace makes each flush slower and is itself in both times.";
    Ok(Findings { rows, notes: vec![note.to_owned()] })
}

/// All files changed, beside somebody else's unwritten data.
pub fn dirty_pages(bench: &Bench<'_>) -> Result<Findings> {
    if let Some(obstacle) = DirtyPages::obstacle(&bench.place)? {
        return Ok(Findings { rows: Vec::new(), notes: vec![format!("dirty-pages: skipped, {obstacle}.")] });
    }
    let mut pair = Pair::prepare(bench, PLAIN)?;
    let least = Cell::new(u64::MAX);
    let samples = pair.alternate(|pair, side, edition| {
        let _foreign = DirtyPages::spread(pair.directory())?;
        least.set(least.get().min(unwritten()?));
        stopwatch::time(&mut pair.change(side, edition))
    })?;
    let name = format!("apply, {FILES} changed files, {DIRTY_MIB} MiB of foreign dirty pages");
    let row = Row::of(name, &samples, REWRITE)?.within(Some(UNDER_LOAD));
    let note = format!("dirty-pages: at least {} MiB were unwritten when a run began.", least.get());
    Ok(Findings { rows: vec![row], notes: vec![note] })
}
