//! The effect of an apply on a neighbour that flushes on the same file system, as etcd does.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::writing::{FILES, PLAIN};
use super::{FigureResult, REWRITE};
use crate::BenchRun;
use crate::dirty_pages::{DIRTY_MIB, DirtyPages};
use crate::neighbour::FlushingNeighbour;
use crate::stopwatch::{median, time, worst};
use crate::table::{FigureRow, FigureValue};
use crate::trees::pair::TreePair;
use crate::turns::PairSide;

/// The time in each round in which the neighbour runs alone.
const UNDISTURBED: Duration = Duration::from_secs(1);

/// Measure on an otherwise idle disk.
pub fn clean(bench: &BenchRun) -> Result<FigureResult> {
    measure(bench, None)
}

/// Measure beside dirty pages of another program.
pub fn dirty(bench: &BenchRun) -> Result<FigureResult> {
    match DirtyPages::obstacle(&bench.place)? {
        Some(obstacle) => {
            let note = format!("neighbour-dirty: skipped, {obstacle}.");
            Ok(FigureResult { rows: Vec::new(), notes: vec![note] })
        }
        None => measure(bench, Some(DIRTY_MIB)),
    }
}

fn measure(bench: &BenchRun, dirty: Option<usize>) -> Result<FigureResult> {
    let mut pair = TreePair::prepare(bench, PLAIN)?;
    let alone = RefCell::new(Vec::new());
    let samples = pair.alternate(|pair, side, edition| {
        if side == PairSide::Ours {
            alone.borrow_mut().extend(latencies(pair, dirty, || {
                sleep(UNDISTURBED);
                Ok(())
            })?);
        }
        latencies(pair, dirty, || time(&mut pair.change(side, edition)).map(|_| ()))
    })?;
    let (alone, ours, baseline) = (alone.into_inner(), samples.ours.concat(), samples.baseline.concat());
    let load = dirty.map(|mib| format!(", {mib} MiB of dirty pages")).unwrap_or_default();
    let row = |what: &str, of: fn(&[Duration]) -> Result<Duration>| {
        let name = format!("a neighbour's fsync beside {FILES} changed files{load}: {what}");
        Ok(FigureRow::new(name, FigureValue::Time(of(&ours)?))
            .against(FigureValue::Time(of(&baseline)?), REWRITE))
    };
    let rows = [row("median", median), row("worst", worst)];
    let note = format!(
        "neighbour{}: undisturbed, its fsync takes {} (worst {}; {} flushes). {} flushes during ours, {} during \
         the baseline.",
        if dirty.is_some() { "-dirty" } else { "" },
        FigureValue::Time(median(&alone)?),
        FigureValue::Time(worst(&alone)?),
        alone.len(),
        ours.len(),
        baseline.len(),
    );
    Ok(FigureResult { rows: rows.into_iter().collect::<Result<_>>()?, notes: vec![note] })
}

/// Return the durations of the neighbour's flushes while `disturbance` runs.
fn latencies(
    pair: &TreePair<'_>,
    dirty: Option<usize>,
    disturbance: impl FnOnce() -> Result<()>,
) -> Result<Vec<Duration>> {
    let _foreign = dirty.map(|_| DirtyPages::spread(pair.directory())).transpose()?;
    let neighbour = FlushingNeighbour::start(pair.directory())?;
    disturbance()?;
    neighbour.latencies()
}
