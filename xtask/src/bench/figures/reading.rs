//! What is only looked at: plans, applies of what is applied already, verifications.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::writing::{FILES, PLAIN};
use super::{Findings, HASH};
use crate::bench::pair::Pair;
use crate::bench::table::{Budget, Quantity, Row};
use crate::bench::turns::{Side, in_turn};
use crate::bench::{Bench, stopwatch};

/// Reading is quick and its times scatter: more rounds than for writing.
const MORE: u32 = 3;
const PLAN: Budget = Budget::AtMost(Quantity::Time(Duration::from_millis(60)));

pub fn plan(bench: &Bench<'_>) -> Result<Findings> {
    let name = format!("plan, {FILES} changed files");
    against_hash(bench, name, Some(PLAN), |pair| pair.flameholder("plan", Some(pair.at().other())))
}

pub fn nothing_to_do(bench: &Bench<'_>) -> Result<Findings> {
    let name = format!("apply, nothing changed in {FILES} files");
    against_hash(bench, name, None, |pair| pair.flameholder("apply", Some(pair.at())))
}

pub fn verify(bench: &Bench<'_>) -> Result<Findings> {
    against_hash(bench, format!("verify, {FILES} files"), None, |pair| pair.flameholder("verify", None))
}

fn against_hash(
    bench: &Bench<'_>,
    name: String,
    budget: Option<Budget>,
    ours: impl Fn(&Pair<'_>) -> Command,
) -> Result<Findings> {
    let pair = Pair::prepare(bench, PLAIN)?;
    let samples = in_turn(MORE * bench.rounds(), |_, side| {
        stopwatch::time(&mut match side {
            Side::Ours => ours(&pair),
            Side::Baseline => pair.hash(),
        })
    })?;
    Ok(vec![Row::of(name, &samples, HASH)?.within(budget)].into())
}
