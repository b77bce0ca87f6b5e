//! Commands that only read: plan, apply without a change, verify.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::writing::{FILES, PLAIN};
use super::{FigureResult, HASH};
use crate::table::{FigureBudget, FigureRow, FigureValue};
use crate::trees::pair::TreePair;
use crate::turns::{PairSide, in_turn};
use crate::{BenchRun, stopwatch};

/// A multiple of the rounds: reading is quick, and its times scatter.
const MORE: u32 = 3;
const PLAN: FigureBudget = FigureBudget::AtMost(FigureValue::Time(Duration::from_millis(60)));

pub fn plan(bench: &BenchRun) -> Result<FigureResult> {
    let name = format!("plan, {FILES} changed files");
    against_hash(bench, name, Some(PLAN), |pair| pair.flameholder("plan", Some(pair.at().other())))
}

pub fn nothing_to_do(bench: &BenchRun) -> Result<FigureResult> {
    let name = format!("apply, nothing changed in {FILES} files");
    against_hash(bench, name, None, |pair| pair.flameholder("apply", Some(pair.at())))
}

pub fn verify(bench: &BenchRun) -> Result<FigureResult> {
    against_hash(bench, format!("verify, {FILES} files"), None, |pair| pair.flameholder("verify", None))
}

fn against_hash(
    bench: &BenchRun,
    name: String,
    budget: Option<FigureBudget>,
    ours: impl Fn(&TreePair<'_>) -> Command,
) -> Result<FigureResult> {
    let pair = TreePair::prepare(bench, PLAIN)?;
    let samples = in_turn(MORE * bench.rounds(), |_, side| {
        stopwatch::time(&mut match side {
            PairSide::Ours => ours(&pair),
            PairSide::Baseline => pair.hash(),
        })
    })?;
    Ok(vec![FigureRow::of(name, &samples, HASH)?.within(budget)].into())
}
