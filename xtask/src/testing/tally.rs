//! Numbers of passed, failed and skipped tests.

use std::fmt;
use std::ops::Add;

/// The numbers of tests that passed, failed and did not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestTally {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
}

impl TestTally {
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };

    /// Parse the counts of a summary, such as `3 passed; 1 failed; 2 ignored`.
    ///
    /// Tests that a filter leaves out (`filtered out`, and nextest's `skipped`, which includes ignored tests)
    /// are not counted: another check of the same run may run them. The check that leaves tests out
    /// altogether adds them as a [`SkippedGroup`].
    pub fn parse(counts: &str) -> Self {
        let mut tally = Self::default();
        let mut words = counts.split_whitespace();
        while let Some(word) = words.next() {
            let Ok(count) = word.parse::<u32>() else {
                continue;
            };
            match words.next().map(|outcome| outcome.trim_matches([',', ';'])) {
                Some("passed") => tally.passed += count,
                Some("failed" | "timed" | "exec") => tally.failed += count,
                Some("ignored") => tally.skipped += count,
                _ => {}
            }
        }
        tally
    }
}

impl Add for TestTally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl fmt::Display for TestTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Tests that no check of a run executes, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedGroup {
    pub subject: String,
    pub reason: String,
    pub count: u32,
    /// Names of the tests; empty if the subject is enough.
    pub names: Vec<String>,
}

impl SkippedGroup {
    /// Return a group of tests by their names.
    pub fn new(subject: &str, reason: impl Into<String>, names: Vec<String>) -> Self {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        Self { subject: subject.to_owned(), reason: reason.into(), count, names }
    }

    /// Return a group without names.
    pub fn unnamed(subject: &str, reason: impl Into<String>, count: u32) -> Self {
        Self { subject: subject.to_owned(), reason: reason.into(), count, names: Vec::new() }
    }
}

impl fmt::Display for SkippedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}, {}: {}", self.count, self.subject, self.reason)?;
        self.names.iter().try_for_each(|name| write!(f, "\n    {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_group_names_its_tests() {
        let names = ["cluster::one".to_owned(), "cluster::two".to_owned()];
        let group = SkippedGroup::new("tests with an API server", "none is installed", names.to_vec());
        let lines =
            "skipped: 2, tests with an API server: none is installed\n    cluster::one\n    cluster::two";
        assert_eq!(group.to_string(), lines);
    }

    #[test]
    fn last_line_has_three_numbers() {
        let tally = TestTally::parse("31 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out");
        assert_eq!((tally + TestTally::FAILED).to_string(), "31 passed, 1 failed, 2 skipped");
    }
}
