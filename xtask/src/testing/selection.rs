//! A selection of tests, in the terms of both runners.

use std::process::Command;

use anyhow::Result;

use super::{SCOPE, TestRunner, listing};
use crate::invocation;
use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;

/// Handling of tests marked `#[ignore]`, for which only the exhaustive run has time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IgnoredTests {
    /// Leave them out.
    #[default]
    Excluded,
    /// Run them too.
    Included,
    /// Run them alone.
    Only,
}

/// Tests by their executables and by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestSelection {
    /// The target selection of cargo, such as `--tests` or `--test daemon`.
    pub targets: Vec<String>,
    /// Filter expression of nextest; empty for all tests of the targets.
    pub expression: String,
    /// The filters of `cargo test`, which cannot read expressions.
    pub arguments: Vec<String>,
    pub ignored: IgnoredTests,
    /// The number of tests that run at a time, if not the number of processors.
    pub threads: Option<u32>,
}

impl TestSelection {
    /// Select all tests of `targets`.
    pub fn of(targets: &[&str]) -> Self {
        Self { targets: targets.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    /// Narrow the selection to tests with these names.
    #[must_use]
    pub fn named(self, names: &[String]) -> Self {
        let equal: Vec<_> = names.iter().map(|name| format!("test(={name})")).collect();
        let expression = if equal.is_empty() { "none()".to_owned() } else { equal.join(" | ") };
        // Without a name `--exact` would select every test; no test has the empty name.
        let none = names.is_empty().then(String::new);
        let arguments =
            std::iter::once("--exact".to_owned()).chain(names.iter().cloned()).chain(none).collect();
        Self { expression, arguments, ..self }
    }

    #[must_use]
    pub fn with_ignored(self, ignored: IgnoredTests) -> Self {
        Self { ignored, ..self }
    }

    #[must_use]
    pub fn with_threads(self, threads: Option<u32>) -> Self {
        Self { threads, ..self }
    }

    /// Return the command that runs the tests.
    pub fn command(&self, tree: &ProjectTree, runner: TestRunner) -> Command {
        let words: &[&str] = match runner {
            TestRunner::Cargo => &["test", "--no-fail-fast"],
            TestRunner::Nextest => &["nextest", "run", "--no-fail-fast"],
        };
        let mut command = tree.cargo(words);
        command.args(SCOPE).args(&self.targets).args(self.filters(runner));
        command.args(self.threads.map(|threads| format!("--test-threads={threads}")));
        command
    }

    /// Return the command that runs one part of the tests.
    ///
    /// # Errors
    /// `cargo test` has no partitions: the tests must be listed, and that fails.
    pub fn part_command(&self, tree: &ProjectTree, runner: TestRunner, part: PartNumber) -> Result<Command> {
        if part == PartNumber::WHOLE {
            return Ok(self.command(tree, runner));
        }
        if runner == TestRunner::Nextest {
            let mut command = self.command(tree, runner);
            command.args(["--no-tests=pass", "--partition", &format!("slice:{part}")]);
            return Ok(command);
        }
        let (index, count) = (part.index() as usize - 1, part.count() as usize);
        let names: Vec<_> = self.list(tree, runner)?.into_iter().skip(index).step_by(count).collect();
        Ok(self.clone().named(&names).command(tree, runner))
    }

    /// List the names of the tests, which builds their executables.
    ///
    /// # Errors
    /// The build fails, or the runner's list cannot be read.
    pub fn list(&self, tree: &ProjectTree, runner: TestRunner) -> Result<Vec<String>> {
        let mut command = match runner {
            TestRunner::Cargo => tree.cargo(&["test", "--quiet"]),
            TestRunner::Nextest => tree.cargo(&["nextest", "list", "--message-format", "json"]),
        };
        command.args(SCOPE).args(&self.targets).args(self.filters(runner));
        match runner {
            TestRunner::Cargo => Ok(listing::parse_cargo(&invocation::read(command.arg("--list"))?)),
            TestRunner::Nextest => listing::parse_nextest(&invocation::read(&mut command)?),
        }
    }

    fn filters(&self, runner: TestRunner) -> Vec<String> {
        let words: Vec<&str> = match (runner, self.ignored) {
            (TestRunner::Cargo, IgnoredTests::Excluded) => vec!["--"],
            (TestRunner::Cargo, IgnoredTests::Included) => vec!["--", "--include-ignored"],
            (TestRunner::Cargo, IgnoredTests::Only) => vec!["--", "--ignored"],
            (TestRunner::Nextest, IgnoredTests::Excluded) => vec![],
            (TestRunner::Nextest, IgnoredTests::Included) => vec!["--run-ignored", "all"],
            (TestRunner::Nextest, IgnoredTests::Only) => vec!["--run-ignored", "only"],
        };
        let mut words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        match runner {
            TestRunner::Cargo => words.extend(self.arguments.iter().cloned()),
            TestRunner::Nextest if self.expression.is_empty() => {}
            TestRunner::Nextest => words.extend(["-E".to_owned(), self.expression.clone()]),
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(selection: &TestSelection, runner: TestRunner) -> String {
        let command = selection.command(&ProjectTree::locate().unwrap(), runner);
        invocation::shown(&command).split_once("vm/scenarios ").unwrap().1.to_owned()
    }

    #[test]
    fn both_runners_get_the_same_selection() {
        let names = ["cuts::a_rollback".to_owned(), "smoke".to_owned()];
        let selection =
            TestSelection::of(&["--test", "hosts"]).named(&names).with_ignored(IgnoredTests::Included);
        let selection = TestSelection { threads: Some(2), ..selection };
        assert_eq!(
            shown(&selection, TestRunner::Cargo),
            "--test hosts -- --include-ignored --exact cuts::a_rollback smoke --test-threads=2"
        );
        assert_eq!(
            shown(&selection, TestRunner::Nextest),
            "--test hosts --run-ignored all -E 'test(=cuts::a_rollback) | test(=smoke)' --test-threads=2"
        );
    }

    #[test]
    fn nextest_partitions_by_itself() {
        let tree = ProjectTree::locate().unwrap();
        let part = PartNumber::new(2, 8).unwrap();
        let command = TestSelection::of(&["--tests"]).part_command(&tree, TestRunner::Nextest, part).unwrap();
        assert!(invocation::shown(&command).ends_with("--tests --no-tests=pass --partition slice:2/8"));
    }
}
