//! Durable changes: `flameholder apply` against writing file by file.

use std::cell::Cell;
use std::process::Command;

use anyhow::Result;

use super::{BATCH, FigureResult, REWRITE};
use crate::baseline::BaselineWork;
use crate::dirty_pages::{DIRTY_MIB, DirtyPages, unwritten};
use crate::strace::{self, CallCounts};
use crate::table::{FigureBudget, FigureRow, FigureValue};
use crate::trees::document::{ChangedFiles, ConfigShape, ContentEncoding};
use crate::trees::pair::TreePair;
use crate::turns::PairSide;
use crate::{BenchRun, stopwatch};

/// The number of files in the design's budgets.
pub const FILES: u32 = 1000;
pub const PLAIN: ConfigShape =
    ConfigShape { files: FILES, changed: ChangedFiles::All, encoding: ContentEncoding::Plain };
const GZIP: ConfigShape = ConfigShape { encoding: ContentEncoding::Gzip, ..PLAIN };
const IDLE: FigureBudget = FigureBudget::TimesFaster(3.0);
const UNDER_LOAD: FigureBudget = FigureBudget::TimesFaster(5.0);
/// At most 1.3 times the time of a program that only writes.
const BESIDE_BATCH: FigureBudget = FigureBudget::TimesFaster(0.77);
/// The delay of each flush in `slow-flush`, in microseconds.
const DELAY: u32 = 2000;
/// The budget of flushes for one changed file: twelve of the change itself, and one of the history, whose last entry tells
/// after a power cut what the host was doing.
const FEW_FLUSHES: u32 = 13;

/// Change all files on an otherwise idle disk.
pub fn all_changed(bench: &BenchRun, files: u32) -> Result<FigureResult> {
    let budget = (files == FILES).then_some(IDLE);
    let mut rows = Vec::new();
    for (shape, spelled) in [(PLAIN, "plain"), (GZIP, "gzip")] {
        let mut pair = TreePair::prepare(bench, ConfigShape { files, ..shape })?;
        let samples =
            pair.alternate(|pair, side, edition| stopwatch::time(&mut pair.change(side, edition)))?;
        let name = format!("apply, {files} changed files, {spelled}");
        rows.push(FigureRow::of(name, &samples, REWRITE)?.within(budget));
    }
    let name = format!("apply, {files} changed files, plain");
    rows.push(beside_batch(bench, ConfigShape { files, ..PLAIN }, name, |command| command)?);
    Ok(rows.into())
}

/// Change all files beside a program that flushes all of them at a time.
fn beside_batch(
    bench: &BenchRun,
    shape: ConfigShape,
    name: String,
    run: impl Fn(Command) -> Command,
) -> Result<FigureRow> {
    let mut pair = TreePair::prepare_against(bench, shape, BaselineWork::Batch)?;
    let samples =
        pair.alternate(|pair, side, edition| stopwatch::time(&mut run(pair.change(side, edition))))?;
    Ok(FigureRow::of(name, &samples, BATCH)?.within(Some(BESIDE_BATCH)))
}

/// Change one file of many: time, flushes, processes.
pub fn one_changed(bench: &BenchRun) -> Result<FigureResult> {
    let mut pair = TreePair::prepare(bench, ConfigShape { changed: ChangedFiles::First, ..PLAIN })?;
    let samples = pair.alternate(|pair, side, edition| stopwatch::time(&mut pair.change(side, edition)))?;
    let name = format!("apply, 1 changed file of {FILES}");
    let [flushes, programs] =
        [FEW_FLUSHES, 1].map(|most| Some(FigureBudget::AtMost(FigureValue::Count(most))));
    let [ours, baseline] = calls(&pair)?;
    let rows = vec![
        FigureRow::of(&*name, &samples, REWRITE)?,
        counted(&name, "flushes", [ours.flushes, baseline.flushes]).within(flushes),
        counted(&name, "processes", [ours.programs, baseline.programs]).within(programs),
    ];
    Ok(rows.into())
}

/// Count both sides' system calls of the next change, ours first.
fn calls(pair: &TreePair<'_>) -> Result<[CallCounts; 2]> {
    let (next, log) = (pair.at().other(), pair.directory().join("calls"));
    let count = |side| strace::count(&pair.change(side, next), &log);
    Ok([count(PairSide::Ours)?, count(PairSide::Baseline)?])
}

fn counted(name: &str, what: &str, numbers: [u32; 2]) -> FigureRow {
    let [ours, baseline] = numbers.map(FigureValue::Count);
    FigureRow::new(format!("{name}: {what}"), ours).against(baseline, REWRITE)
}

/// Change all files on a slow device.
pub fn slow_flush(bench: &BenchRun) -> Result<FigureResult> {
    let mut pair = TreePair::prepare(bench, PLAIN)?;
    let samples = pair.alternate(|pair, side, edition| {
        stopwatch::time(&mut strace::slowed(&pair.change(side, edition), DELAY))
    })?;
    let name = format!("apply, {FILES} changed files");
    let slower = format!("{name}, a flush costs {} ms more", DELAY / 1000);
    let [ours, baseline] = calls(&pair)?;
    let rows = vec![
        FigureRow::of(slower.clone(), &samples, REWRITE)?.within(Some(UNDER_LOAD)),
        beside_batch(bench, PLAIN, slower, |command| strace::slowed(&command, DELAY))?,
        counted(&name, "flushes", [ours.flushes, baseline.flushes]),
    ];
    let note = "slow-flush: strace delays each flush; its own cost is in both times.";
    Ok(FigureResult { rows, notes: vec![note.to_owned()] })
}

/// Change all files beside dirty pages of another program.
pub fn dirty_pages(bench: &BenchRun) -> Result<FigureResult> {
    if let Some(obstacle) = DirtyPages::obstacle(&bench.place)? {
        return Ok(FigureResult {
            rows: Vec::new(),
            notes: vec![format!("dirty-pages: skipped, {obstacle}.")],
        });
    }
    let mut pair = TreePair::prepare(bench, PLAIN)?;
    let least = Cell::new(u64::MAX);
    let samples = pair.alternate(|pair, side, edition| {
        let _foreign = DirtyPages::spread(pair.directory())?;
        least.set(least.get().min(unwritten()?));
        stopwatch::time(&mut pair.change(side, edition))
    })?;
    let name = format!("apply, {FILES} changed files, {DIRTY_MIB} MiB of foreign dirty pages");
    let row = FigureRow::of(name, &samples, REWRITE)?.within(Some(UNDER_LOAD));
    let note = format!("dirty-pages: at least {} MiB were dirty at the start of each run.", least.get());
    Ok(FigureResult { rows: vec![row], notes: vec![note] })
}
