//! What flameholder is, whatever it does: its start, its memory, its size.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::writing::{FILES, PLAIN};
use super::{Findings, HASH, REWRITE, TRUE};
use crate::bench::pair::Pair;
use crate::bench::table::{Budget, Quantity, Row};
use crate::bench::turns::{Side, in_turn};
use crate::bench::{Bench, peak_memory, stopwatch};

/// Starting takes little, and its times scatter.
const MORE: u32 = 10;
const READY: Budget = Budget::AtMost(Quantity::Time(Duration::from_millis(20)));
const SIZE: Budget = Budget::AtMost(Quantity::Kibibytes(20 * 1024));

pub fn start_up(bench: &Bench<'_>) -> Result<Findings> {
    let samples = in_turn(MORE * bench.rounds(), |_, side| {
        stopwatch::time(&mut match side {
            Side::Ours => version(bench),
            Side::Baseline => Command::new(TRUE),
        })
    })?;
    Ok(vec![Row::of("start-up (--version)", &samples, TRUE)?.within(Some(READY))].into())
}

pub fn memory(bench: &Bench<'_>) -> Result<Findings> {
    let pair = Pair::prepare(bench, PLAIN)?;
    let next = pair.at().other();
    let row = |what: String, ours: &Command, baseline: &Command, program| {
        let [ours, baseline] = [ours, baseline].map(peak_memory::of);
        let name = format!("peak resident memory, {what}");
        Ok(Row::new(name, Quantity::Kibibytes(ours?)).against(Quantity::Kibibytes(baseline?), program))
    };
    let rows = [
        row("--version".to_owned(), &version(bench), &Command::new(TRUE), TRUE),
        row(
            format!("plan, {FILES} changed files"),
            &pair.flameholder("plan", Some(next)),
            &pair.hash(),
            HASH,
        ),
        row(
            format!("apply, {FILES} changed files"),
            &pair.change(Side::Ours, next),
            &pair.change(Side::Baseline, next),
            REWRITE,
        ),
    ];
    Ok(rows.into_iter().collect::<Result<Vec<_>>>()?.into())
}

pub fn size(bench: &Bench<'_>) -> Result<Findings> {
    let executable = bench.workspace.executable("flameholder");
    let bytes = executable.metadata().with_context(|| format!("looking at {}", executable.display()))?.len();
    let size =
        Quantity::Kibibytes(u32::try_from(bytes.div_ceil(1024)).context("no executable is that large")?);
    Ok(vec![Row::new("size of the stripped executable", size).within(Some(SIZE))].into())
}

fn version(bench: &Bench<'_>) -> Command {
    let mut command = bench.executable("flameholder");
    command.arg("--version");
    command
}
