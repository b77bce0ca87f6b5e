//! Counting tests from what their runner prints.

use std::io::{BufRead, BufReader, Read};
use std::ops::Add;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::checks::has_subcommand;
use crate::invocation;
use crate::workspace::Workspace;

/// How many passed and how many did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u32,
    pub failed: u32,
}

impl Tally {
    pub const PASSED: Self = Self {
        passed: 1,
        failed: 0,
    };
    pub const FAILED: Self = Self {
        passed: 0,
        failed: 1,
    };

    /// Reads one line of a test runner; lines that summarize nothing count nothing.
    ///
    /// `cargo test` ends each executable with `test result: ok. 3 passed; 0 failed; …`, nextest
    /// the whole run with `Summary [ 0.1s] 4 tests run: 3 passed (1 slow), 1 timed out, …`.
    fn parse(line: &str) -> Self {
        let mut tally = Self::default();
        let summary = line.split_once("test result:").or_else(|| {
            line.trim_start()
                .strip_prefix("Summary [")?
                .split_once(" run:")
        });
        let Some((_, counts)) = summary else {
            return tally;
        };
        let mut words = counts.split_whitespace();
        while let Some(word) = words.next() {
            let Ok(count) = word.parse::<u32>() else {
                continue;
            };
            match words.next().map(|what| what.trim_matches([',', ';'])) {
                Some("passed") => tally.passed += count,
                Some("failed" | "timed" | "exec") => tally.failed += count,
                _ => {}
            }
        }
        tally
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
        }
    }
}

/// What runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    Cargo,
    Nextest,
}

impl Runner {
    /// nextest where it is installed.
    pub fn installed(workspace: &Workspace) -> Self {
        if has_subcommand(workspace, "nextest") {
            Self::Nextest
        } else {
            Self::Cargo
        }
    }

    /// Runs `command`, passes its output on and counts its tests.
    ///
    /// # Errors
    /// The command cannot be run, or its output is lost. Failed tests are counted, not errors; a run that
    /// fails before any test does (the build) counts as one failure.
    pub fn count(self, command: &mut Command) -> Result<Tally> {
        let shown = invocation::shown(command);
        let mut child = match self {
            Self::Cargo => command.stdout(Stdio::piped()),
            Self::Nextest => command.stderr(Stdio::piped()),
        }
        .spawn()
        .with_context(|| format!("starting `{shown}`"))?;
        let stdout = child.stdout.take().map(pass_on);
        let stderr = child.stderr.take().map(pass_on);
        let tally = stdout.or(stderr).context("no output to count")??;
        let status = child
            .wait()
            .with_context(|| format!("awaiting `{shown}`"))?;
        Ok(if status.success() || tally.failed > 0 {
            tally
        } else {
            tally + Tally::FAILED
        })
    }
}

fn pass_on(output: impl Read) -> Result<Tally> {
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("reading the tests' output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally = tally + Tally::parse(&line);
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_summaries_are_counted() {
        let cases = [
            (
                "test result: ok. 31 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.25s",
                (31, 0),
            ),
            (
                "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out",
                (2, 3),
            ),
            (
                "     Summary [   0.122s] 14 tests run: 14 passed (2 slow), 1 skipped",
                (14, 0),
            ),
            (
                "     Summary [   9.001s] 5/9 tests run: 2 passed, 1 failed, 1 timed out, 1 exec failed, 0 skipped",
                (2, 3),
            ),
            (
                "     Summary [   0.003s] 1 test run: 1 passed, 0 skipped",
                (1, 0),
            ),
            ("running 14 tests", (0, 0)),
            ("Summary of 3 passed", (0, 0)),
        ];
        for (line, (passed, failed)) in cases {
            assert_eq!(Tally::parse(line), Tally { passed, failed }, "{line}");
        }
    }

    #[test]
    fn a_run_that_ends_before_its_tests_counts_as_a_failure() {
        let tally = Runner::Cargo.count(&mut Command::new("false")).unwrap();
        assert_eq!(tally, Tally::FAILED);
    }

    #[test]
    fn counts_of_several_executables_add_up() {
        let script = "echo 'test result: ok. 2 passed; 0 failed'; echo 'test result: ok. 3 passed; 0 failed'";
        let tally = Runner::Cargo
            .count(Command::new("sh").args(["-c", script]))
            .unwrap();
        assert_eq!(
            tally,
            Tally {
                passed: 5,
                failed: 0
            }
        );
    }
}
