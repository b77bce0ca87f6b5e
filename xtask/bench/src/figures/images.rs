//! Updates of the OS image: several layers fetched at a time against one after the other.

use std::time::Duration;

use anyhow::Result;
use osimage::LinkSpeed;

use super::{FigureResult, ONE_LAYER};
use crate::images::ImageUpdate;
use crate::table::{FigureBudget, FigureRow};
use crate::turns::in_turn;
use crate::{BenchRun, stopwatch};

/// A registry in another place.
const DISTANT: LinkSpeed = LinkSpeed { delay: Duration::from_millis(50), rate: 20_000_000 };

/// Update from a distant registry.
pub fn distant(bench: &BenchRun) -> Result<FigureResult> {
    let name = "image update, 50 ms per blob, 20 MB/s per connection";
    // Never slower: the gain depends on the duration of the import itself (docs/development/image-import.md).
    update(bench, name, Some(DISTANT), FigureBudget::TimesFaster(0.95))
}

/// Update from a registry on this machine.
pub fn near(bench: &BenchRun) -> Result<FigureResult> {
    // No slower, as far as two runs of the same are equal.
    update(bench, "image update, registry on loopback", None, FigureBudget::TimesFaster(0.95))
}

fn update(
    bench: &BenchRun,
    name: &str,
    speed: Option<LinkSpeed>,
    budget: FigureBudget,
) -> Result<FigureResult> {
    let update = ImageUpdate::prepare(bench, speed)?;
    let samples = in_turn(bench.rounds(), |_, side| stopwatch::time(&mut update.update(side)?))?;
    Ok(vec![FigureRow::of(name, &samples, ONE_LAYER)?.within(Some(budget))].into())
}
