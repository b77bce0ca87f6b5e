//! The footprint of flameholder: start-up time, peak memory, size of the executable.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::writing::{FILES, PLAIN};
use super::{FigureResult, HASH, REWRITE, TRUE};
use crate::table::{FigureBudget, FigureRow, FigureValue};
use crate::trees::pair::TreePair;
use crate::turns::{PairSide, in_turn};
use crate::{BenchRun, peak_memory, stopwatch};

/// A multiple of the rounds: start-up is short, and its times scatter.
const MORE: u32 = 10;
const READY: FigureBudget = FigureBudget::AtMost(FigureValue::Time(Duration::from_millis(20)));
const SIZE: FigureBudget = FigureBudget::AtMost(FigureValue::Kibibytes(20 * 1024));

pub fn start_up(bench: &BenchRun) -> Result<FigureResult> {
    let samples = in_turn(MORE * bench.rounds(), |_, side| {
        stopwatch::time(&mut match side {
            PairSide::Ours => help(bench),
            PairSide::Baseline => Command::new(TRUE),
        })
    })?;
    Ok(vec![FigureRow::of("start-up (--help)", &samples, TRUE)?.within(Some(READY))].into())
}

pub fn memory(bench: &BenchRun) -> Result<FigureResult> {
    let pair = TreePair::prepare(bench, PLAIN)?;
    let next = pair.at().other();
    let row = |what: String, ours: &Command, baseline: &Command, program| {
        let [ours, baseline] = [ours, baseline].map(peak_memory::of);
        let name = format!("peak resident memory, {what}");
        Ok(FigureRow::new(name, FigureValue::Kibibytes(ours?))
            .against(FigureValue::Kibibytes(baseline?), program))
    };
    let rows = [
        row("--help".to_owned(), &help(bench), &Command::new(TRUE), TRUE),
        row(
            format!("plan, {FILES} changed files"),
            &pair.flameholder("plan", Some(next)),
            &pair.hash(),
            HASH,
        ),
        row(
            format!("apply, {FILES} changed files"),
            &pair.change(PairSide::Ours, next),
            &pair.change(PairSide::Baseline, next),
            REWRITE,
        ),
    ];
    Ok(rows.into_iter().collect::<Result<Vec<_>>>()?.into())
}

pub fn size(bench: &BenchRun) -> Result<FigureResult> {
    let executable = bench.layout.executable("flameholder");
    let bytes =
        executable.metadata().with_context(|| format!("reading the size of {}", executable.display()))?.len();
    let size = FigureValue::Kibibytes(
        u32::try_from(bytes.div_ceil(1024)).context("the executable is larger than 4 TiB")?,
    );
    Ok(vec![FigureRow::new("size of the stripped executable", size).within(Some(SIZE))].into())
}

/// A command that does nothing else than to start: `--version` asks the worker.
fn help(bench: &BenchRun) -> Command {
    let mut command = bench.executable("flameholder");
    command.arg("--help");
    command
}
