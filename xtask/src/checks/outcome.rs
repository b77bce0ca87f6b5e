//! The outcome of a check, and the table of a run.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{SkippedGroup, TestTally};

/// The numbers of a check, and the tests that it left out.
#[derive(Debug, Default)]
pub struct CheckOutcome {
    pub tally: TestTally,
    pub skipped: Vec<SkippedGroup>,
}

impl CheckOutcome {
    /// The outcome of a check that counts as one test.
    pub const PASSED: Self = Self { tally: TestTally::PASSED, skipped: Vec::new() };
    pub const FAILED: Self = Self { tally: TestTally::FAILED, skipped: Vec::new() };

    /// Return an outcome that counts the tests of each group as skipped.
    pub fn new(tally: TestTally, groups: Vec<SkippedGroup>) -> Self {
        let skipped: Vec<_> = groups.into_iter().filter(|group| group.count > 0).collect();
        let count: u32 = skipped.iter().map(|group| group.count).sum();
        Self { tally: TestTally { skipped: tally.skipped + count, ..tally }, skipped }
    }

    /// Return the outcome of a check that skips all its tests.
    pub fn skipped(group: SkippedGroup) -> Self {
        Self::new(TestTally::default(), vec![group])
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct CheckRow {
    pub name: &'static str,
    pub outcome: CheckOutcome,
    /// `None` for a check that was not run, because a check that it needs failed.
    pub time: Option<Duration>,
}

impl CheckRow {
    /// Return the row of a check that was not run; it counts as one skipped test.
    pub fn not_run(name: &'static str, needed: &str) -> Self {
        let group = SkippedGroup::unnamed(name, format!("not run, as `{needed}` failed"), 1);
        Self { name, outcome: CheckOutcome::skipped(group), time: None }
    }

    /// Return the row of a check that other shares do; it counts as one skipped test.
    pub fn left_to_others(name: &'static str) -> Self {
        let group = SkippedGroup::unnamed(name, "other shares; cargo xtask test --share K/N runs it", 1);
        Self { name, outcome: CheckOutcome::skipped(group), time: Some(Duration::ZERO) }
    }

    /// Return true unless the check failed or was not run.
    pub fn is_ok(&self) -> bool {
        self.time.is_some() && self.outcome.tally.failed == 0
    }

    fn word(&self) -> &'static str {
        match self.time {
            None => "not run",
            Some(_) if self.outcome.tally.failed > 0 => "FAILED",
            Some(_) if self.outcome.tally.passed == 0 => "skipped",
            Some(_) => "ok",
        }
    }

    fn line(&self) -> String {
        let seconds = self.time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64()));
        format!("{:<34} {seconds:>8} s  {:<8} {}", self.name, self.word(), self.outcome.tally)
    }

    /// The row in the results that are kept of exhaustive runs.
    pub fn as_json(&self) -> Value {
        json!({"name": self.name, "seconds": self.time.map(|time| time.as_secs()), "outcome": self.word()})
    }
}

/// Add up the numbers of all rows.
pub fn total(rows: &[CheckRow]) -> TestTally {
    rows.iter().fold(TestTally::default(), |sum, row| sum + row.outcome.tally)
}

/// Render the table, the skipped groups and, as the last line, `N passed, N failed, N skipped`.
pub fn render(rows: &[CheckRow]) -> String {
    let time: Duration = rows.iter().filter_map(|row| row.time).sum();
    let mut lines: Vec<_> = rows.iter().map(CheckRow::line).collect();
    lines.push(format!("{:<34} {:>8.1} s", "in all", time.as_secs_f64()));
    lines.push(String::new());
    lines.extend(rows.iter().flat_map(|row| &row.outcome.skipped).map(ToString::to_string));
    lines.push(total(rows).to_string());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_each_check_and_ends_with_the_totals() {
        let tally = TestTally { passed: 7, failed: 1, skipped: 0 };
        let groups = vec![
            SkippedGroup::unnamed("tests as root", "this user is not root", 5),
            SkippedGroup::unnamed("others", "never shown", 0),
        ];
        let time = Some(Duration::from_millis(1500));
        let rows = [
            CheckRow { name: "formatting", outcome: CheckOutcome::PASSED, time },
            CheckRow { name: "tests", outcome: CheckOutcome::new(tally, groups), time },
            CheckRow::not_run("demo", "release build"),
        ];
        let expected = "\
formatting                              1.5 s  ok       1 passed, 0 failed, 0 skipped
tests                                   1.5 s  FAILED   7 passed, 1 failed, 5 skipped
demo                                      - s  not run  0 passed, 0 failed, 1 skipped
in all                                  3.0 s

skipped: 5, tests as root: this user is not root
skipped: 1, demo: not run, as `release build` failed
8 passed, 1 failed, 6 skipped";
        assert_eq!(render(&rows), expected);
        assert_eq!(rows.iter().map(CheckRow::is_ok).collect::<Vec<_>>(), [true, false, false]);
    }
}
