//! Generations of a host that runs: how they are staged, bound, booted, settled and left.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

mod failures;
mod updates;

use anyhow::Result;
use vm::config::Config;
use vm::{Host, Warm, operator, scenario};

/// Runs a test on a host with the generation `one`, which is made once for all tests of this program.
fn on_generation_one(test: impl FnOnce(&mut Host) -> Result<()>) -> Result<()> {
    let one = Warm::Named("one".to_owned());
    if !one.is_saved()? {
        scenario(Warm::Fresh, |host| {
            operator::update(host, &Config::named("one"))?;
            host.save_warm("one")
        })?;
    }
    scenario(one, test)
}
