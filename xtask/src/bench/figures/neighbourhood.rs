//! What an apply does to a neighbour that flushes on the same file system, as etcd does.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::writing::{FILES, PLAIN};
use super::{Findings, REWRITE};
use crate::bench::Bench;
use crate::bench::dirty_pages::{DIRTY_MIB, DirtyPages};
use crate::bench::neighbour::Neighbour;
use crate::bench::pair::Pair;
use crate::bench::stopwatch::{median, time, worst};
use crate::bench::table::{Quantity, Row};
use crate::bench::turns::Side;

/// How long the neighbour is watched in each round while nobody disturbs it.
const UNDISTURBED: Duration = Duration::from_secs(1);

/// On a disk that has nothing else to do.
pub fn clean(bench: &Bench<'_>) -> Result<Findings> {
    measure(bench, None)
}

/// Beside somebody's unwritten data.
pub fn dirty(bench: &Bench<'_>) -> Result<Findings> {
    match DirtyPages::obstacle(&bench.place)? {
        Some(obstacle) => {
            let note = format!("neighbour-dirty: skipped, {obstacle}.");
            Ok(Findings { rows: Vec::new(), notes: vec![note] })
        }
        None => measure(bench, Some(DIRTY_MIB)),
    }
}

fn measure(bench: &Bench<'_>, dirty: Option<usize>) -> Result<Findings> {
    let mut pair = Pair::prepare(bench, PLAIN)?;
    let alone = RefCell::new(Vec::new());
    let samples = pair.alternate(|pair, side, edition| {
        if side == Side::Ours {
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
        Ok(Row::new(name, Quantity::Time(of(&ours)?)).against(Quantity::Time(of(&baseline)?), REWRITE))
    };
    let rows = [row("median", median), row("worst", worst)];
    let note = format!(
        "neighbour{}: undisturbed, its fsync takes {} (worst {}; {} flushes). {} flushes during ours, {} during \
         the baseline.",
        if dirty.is_some() { "-dirty" } else { "" },
        Quantity::Time(median(&alone)?),
        Quantity::Time(worst(&alone)?),
        alone.len(),
        ours.len(),
        baseline.len(),
    );
    Ok(Findings { rows: rows.into_iter().collect::<Result<_>>()?, notes: vec![note] })
}

/// How long the neighbour's flushes take while `disturbance` runs.
fn latencies(
    pair: &Pair<'_>,
    dirty: Option<usize>,
    disturbance: impl FnOnce() -> Result<()>,
) -> Result<Vec<Duration>> {
    let _foreign = dirty.map(|_| DirtyPages::spread(pair.directory())).transpose()?;
    let neighbour = Neighbour::start(pair.directory())?;
    disturbance()?;
    neighbour.latencies()
}
