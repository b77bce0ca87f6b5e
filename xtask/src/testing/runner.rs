//! The programs that run tests, and their summaries.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::tally::TestTally;
use crate::invocation;
use crate::project_tree::ProjectTree;

/// The program that runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestRunner {
    Cargo,
    Nextest,
}

impl TestRunner {
    /// Return nextest if it is installed, otherwise `cargo test`.
    pub fn installed(tree: &ProjectTree) -> Self {
        if tree.has_subcommand("nextest") { Self::Nextest } else { Self::Cargo }
    }

    /// Run `command`, pass its output on and count its tests.
    ///
    /// # Errors
    /// The command cannot be run, or its output cannot be read. Failed tests are counted and are no error; a
    /// run that fails before its first test (in the build) counts as one failure.
    pub fn count(self, command: &mut Command) -> Result<TestTally> {
        let shown = invocation::shown(command);
        let mut child = match self {
            Self::Cargo => command.stdout(Stdio::piped()),
            Self::Nextest => command.stderr(Stdio::piped()),
        }
        .spawn()
        .with_context(|| format!("starting `{shown}`"))?;
        let stdout = child.stdout.take().map(|output| self.pass_on(output));
        let stderr = child.stderr.take().map(|output| self.pass_on(output));
        let tally = stdout.or(stderr).context("the runner's output is not a pipe")??;
        let status = child.wait().with_context(|| format!("waiting for `{shown}`"))?;
        Ok(if status.success() || tally.failed > 0 { tally } else { tally + TestTally::FAILED })
    }

    fn pass_on(self, output: impl Read) -> Result<TestTally> {
        let mut tally = TestTally::default();
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("reading the runner's output")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally = tally + self.summary(&line).map(TestTally::parse).unwrap_or_default();
        }
        Ok(tally)
    }

    /// Return the counts in a summary line.
    ///
    /// `cargo test` ends each executable with `test result: ok. 3 passed; …`, nextest the whole run with
    /// `Summary [ 0.1s] 4 tests run: 3 passed (1 slow), 1 timed out, …`. nextest repeats the output of failed
    /// tests, which has cargo's form.
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
    fn summaries_of_both_runners_are_counted() {
        use TestRunner::{Cargo, Nextest};
        let cases = [
            (
                Cargo,
                "test result: ok. 31 passed; 0 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.25s",
                [31, 0, 2],
            ),
            (
                Cargo,
                "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out",
                [2, 3, 0],
            ),
            (Cargo, "running 14 tests", [0; 3]),
            (Nextest, "     Summary [   0.122s] 14 tests run: 14 passed (2 slow), 1 skipped", [14, 0, 0]),
            (
                Nextest,
                "     Summary [   9.001s] 5/9 tests run: 2 passed, 1 failed, 1 timed out, 1 exec failed, 0 skipped",
                [2, 3, 0],
            ),
            (Nextest, "     Summary [   0.003s] 1 test run: 1 passed, 0 skipped", [1, 0, 0]),
            (Nextest, "    test result: FAILED. 0 passed; 1 failed; 0 ignored", [0; 3]),
        ];
        for (runner, line, [passed, failed, skipped]) in cases {
            let tally = runner.summary(line).map(TestTally::parse).unwrap_or_default();
            assert_eq!(tally, TestTally { passed, failed, skipped }, "{line}");
        }
    }

    #[test]
    fn run_that_fails_before_its_tests_is_one_failure() {
        let tally = TestRunner::Cargo.count(&mut Command::new("false")).unwrap();
        assert_eq!(tally, TestTally::FAILED);
    }

    #[test]
    fn counts_of_several_executables_are_added() {
        let script = "echo 'test result: ok. 2 passed; 0 failed'; echo 'test result: ok. 3 passed; 0 failed'";
        let tally = TestRunner::Cargo.count(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(tally, TestTally { passed: 5, ..TestTally::default() });
    }
}
