//! Running tests by nextest or `cargo test`, and counting them.
//!
//! All runs of the project select the same packages and features ([`SCOPE`]) and, if possible, all targets,
//! and differ only in their filters: another selection can give dependencies other features, and cargo
//! compiles those again.

mod listing;
mod runner;
mod selection;
mod tally;

pub use runner::TestRunner;
pub use selection::{IgnoredTests, TestSelection};
pub use tally::{SkippedGroup, TestTally};

/// The packages and features of every build for tests. The feature adds the scenarios on virtual machines.
pub const SCOPE: [&str; 3] = ["--workspace", "--features", "vm/scenarios"];
/// Environment variable with the folder of the executables that stand for the next release.
pub const NEXT_RELEASE: &str = "FLAMEHOLDER_NEXT";
