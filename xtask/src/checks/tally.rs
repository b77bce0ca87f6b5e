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
    pub const PASSED: Self = Self { passed: 1, failed: 0 };
    pub const FAILED: Self = Self { passed: 0, failed: 1 };

    /// Reads the counts of a summary, such as `3 passed; 1 failed; 0 ignored`.
    fn parse(counts: &str) -> Self {
        let mut tally = Self::default();
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
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
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
        if has_subcommand(workspace, "nextest") { Self::Nextest } else { Self::Cargo }
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
        let stdout = child.stdout.take().map(|output| self.pass_on(output));
        let stderr = child.stderr.take().map(|output| self.pass_on(output));
        let tally = stdout.or(stderr).context("no output to count")??;
        let status = child.wait().with_context(|| format!("awaiting `{shown}`"))?;
        Ok(if status.success() || tally.failed > 0 { tally } else { tally + Tally::FAILED })
    }

    fn pass_on(self, output: impl Read) -> Result<Tally> {
        let mut tally = Tally::default();
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("reading the tests' output")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally = tally + self.summary(&line).map(Tally::parse).unwrap_or_default();
        }
        Ok(tally)
    }

    /// The counts in a summarizing line.
    ///
    /// `cargo test` ends each executable with `test result: ok. 3 passed; …`, nextest the whole
    /// run with `Summary [ 0.1s] 4 tests run: 3 passed (1 slow), 1 timed out, …`; a failed test's output,
    /// which nextest repeats, has cargo's form.
    fn summary(self, line: &str) -> Option<&str> {
        let (_, counts) = match self {
            Self::Cargo => line.strip_prefix("test result:")?.split_once('.')?,
            Self::Nextest => line.trim_start().strip_prefix("Summary [")?.split_once(" run:")?,
        };
        Some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_summaries_are_counted() {
        use Runner::{Cargo, Nextest};
        let cases = [
            (
                Cargo,
                "test result: ok. 31 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.25s",
                (31, 0),
            ),
            (Cargo, "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out", (2, 3)),
            (Cargo, "running 14 tests", (0, 0)),
            (Nextest, "     Summary [   0.122s] 14 tests run: 14 passed (2 slow), 1 skipped", (14, 0)),
            (
                Nextest,
                "     Summary [   9.001s] 5/9 tests run: 2 passed, 1 failed, 1 timed out, 1 exec failed, 0 skipped",
                (2, 3),
            ),
            (Nextest, "     Summary [   0.003s] 1 test run: 1 passed, 0 skipped", (1, 0)),
            (Nextest, "    test result: FAILED. 0 passed; 1 failed; 0 ignored", (0, 0)),
        ];
        for (runner, line, (passed, failed)) in cases {
            let tally = runner.summary(line).map(Tally::parse).unwrap_or_default();
            assert_eq!(tally, Tally { passed, failed }, "{line}");
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
        let tally = Runner::Cargo.count(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(tally, Tally { passed: 5, failed: 0 });
    }
}
