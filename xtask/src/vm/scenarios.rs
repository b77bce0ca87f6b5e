//! The scenarios on virtual machines, and a selection of them.

use std::fmt;

use anyhow::Result;

use super::share;
use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;
use crate::testing::{IgnoredTests, NEXT_RELEASE, SkippedGroup, TestRunner, TestSelection, TestTally};

/// Executable of the smoke tests, which each share runs.
const CORE: &str = "smoke";
/// Executable of the scenarios that are divided into shares.
const DIVIDED: &str = "hosts";
/// Scenarios that exchange the agent with the next release.
const WITH_NEXT_RELEASE: &str = "generations::releases::";
/// Number of virtual machines that run at a time. Each has two processors, which it keeps busy half of the
/// time.
const MACHINES: u32 = 2;

/// Cargo targets of a build of the scenarios. The features of their dependencies differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioBuild {
    /// The scenarios alone: the quickest if no other test is built.
    Alone,
    /// All tests of the workspace: nothing is compiled again if those are built.
    WithAllTests,
}

impl ScenarioBuild {
    /// Return cargo's target selection. `cargo test` runs each target that it builds, so it gets the
    /// scenarios alone.
    pub fn targets(self, runner: TestRunner) -> &'static [&'static str] {
        match (self, runner) {
            (Self::WithAllTests, TestRunner::Nextest) => &["--tests"],
            _ => &["--test", DIVIDED, "--test", CORE],
        }
    }
}

/// The environment of a run of scenarios.
#[derive(Debug, Clone, Copy)]
pub struct ScenarioRun<'t> {
    pub tree: &'t ProjectTree,
    pub runner: TestRunner,
    pub build: ScenarioBuild,
    pub is_exhaustive: bool,
}

impl ScenarioRun<'_> {
    /// List the scenarios of one executable.
    fn list(&self, executable: &str, ignored: IgnoredTests) -> Result<Vec<String>> {
        let targets = match self.runner {
            TestRunner::Nextest => self.build.targets(self.runner),
            TestRunner::Cargo => &["--test", executable],
        };
        let expression = format!("package(vm) & binary({executable})");
        let tests = TestSelection { expression, ..TestSelection::of(targets) };
        tests.with_ignored(ignored).list(self.tree, self.runner)
    }
}

/// A selection of scenarios.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmScenarios {
    /// Scenarios with this text in their name, or in that of their executable.
    Named(String),
    /// One share, and the smoke tests.
    Share(PartNumber),
}

/// Result of a run: numbers of tests, and the groups of scenarios that were not in it.
#[derive(Debug)]
pub struct ScenarioResult {
    pub tally: TestTally,
    pub skipped: Vec<SkippedGroup>,
}

impl fmt::Display for VmScenarios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(part) => write!(f, "scenarios with `{part}` in their name"),
            Self::Share(share) => write!(f, "share {share} of the scenarios"),
        }
    }
}

impl VmScenarios {
    /// Run the scenarios on the virtual machines, which are built already.
    ///
    /// # Errors
    /// The scenarios cannot be built, listed or run. A failed scenario is no error.
    pub fn run(&self, run: &ScenarioRun<'_>) -> Result<ScenarioResult> {
        let ScenarioRun { tree, runner, is_exhaustive, .. } = *run;
        let ScenarioNames { core, mut selected, others, ignored } = self.names(run)?;
        let is_possible = |name: &String| tree.has_next_release() || !name.starts_with(WITH_NEXT_RELEASE);
        let impossible: Vec<_> = selected.extract_if(.., |name| !is_possible(name)).collect();
        let names = [core, selected].concat();
        let tests = TestSelection { threads: Some(MACHINES), ..TestSelection::of(run.build.targets(runner)) };
        let tests = tests.named(&names).with_ignored(ignored_tests(is_exhaustive));
        let mut command = tests.command(tree, runner);
        command.env("FLAMEHOLDER_VM", tree.target().join("vm")).env("RUST_LIB_BACKTRACE", "0");
        command.env(NEXT_RELEASE, tree.next_release());
        if is_exhaustive {
            command.env("FLAMEHOLDER_EXHAUSTIVE", "1");
        }
        let tally = TestTally { skipped: 0, ..runner.count(&mut command)? };
        let skipped = [
            SkippedGroup::new(
                "scenarios of other shares",
                "cargo xtask vm test --share K/N runs them",
                others,
            ),
            SkippedGroup::new("exhaustive scenarios", "--exhaustive runs them", ignored),
            SkippedGroup::new(
                "scenarios with the next release",
                "its executables are not built; cargo xtask test builds them",
                impossible,
            ),
        ];
        let skipped: Vec<_> = skipped.into_iter().filter(|group| group.count > 0).collect();
        let count = skipped.iter().map(|group| group.count).sum();
        Ok(ScenarioResult { tally: TestTally { skipped: count, ..tally }, skipped })
    }

    /// Print the selected scenarios, with the seconds that each takes.
    ///
    /// # Errors
    /// The scenarios cannot be built or listed.
    pub fn print(&self, run: &ScenarioRun<'_>) -> Result<()> {
        let names = self.names(run)?;
        names.core.iter().for_each(|name| println!("{:>5}  {CORE}::{name}", "-"));
        names.selected.iter().for_each(|name| println!("{:>5}  {name}", share::seconds(name)));
        let seconds: u32 = names.selected.iter().map(|name| share::seconds(name)).sum();
        println!("{:>5}  in all, {MACHINES} at a time", seconds / MACHINES);
        Ok(())
    }

    fn names(&self, run: &ScenarioRun<'_>) -> Result<ScenarioNames> {
        let core = run.list(CORE, IgnoredTests::Excluded)?;
        let mut divided = run.list(DIVIDED, ignored_tests(run.is_exhaustive))?;
        divided.sort();
        let ignored = if run.is_exhaustive { Vec::new() } else { run.list(DIVIDED, IgnoredTests::Only)? };
        Ok(self.select(core, divided, ignored))
    }

    fn select(&self, core: Vec<String>, divided: Vec<String>, ignored: Vec<String>) -> ScenarioNames {
        let matches =
            |executable: &str, name: &str, part: &str| executable.contains(part) || name.contains(part);
        match self {
            Self::Named(part) => ScenarioNames {
                core: core.into_iter().filter(|name| matches(CORE, name, part)).collect(),
                selected: divided.into_iter().filter(|name| matches(DIVIDED, name, part)).collect(),
                others: Vec::new(),
                ignored: ignored.into_iter().filter(|name| matches(DIVIDED, name, part)).collect(),
            },
            Self::Share(number) => {
                let selected = share::assign(&divided, *number);
                let others = divided.into_iter().filter(|name| !selected.contains(name)).collect();
                ScenarioNames { core, selected, others, ignored }
            }
        }
    }
}

/// Names of scenarios, by the reason for which they run or are skipped.
#[derive(Debug, PartialEq, Eq)]
struct ScenarioNames {
    core: Vec<String>,
    selected: Vec<String>,
    others: Vec<String>,
    ignored: Vec<String>,
}

fn ignored_tests(is_exhaustive: bool) -> IgnoredTests {
    if is_exhaustive { IgnoredTests::Included } else { IgnoredTests::Excluded }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(scenarios: &VmScenarios) -> ScenarioNames {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let divided = names(&["cuts::a", "cuts::b", "daemon::c"]);
        scenarios.select(names(&["starts"]), divided, names(&["kola::d"]))
    }

    #[test]
    fn name_selects_by_executable_and_by_test() {
        let named = |part: &str| {
            let names = select(&VmScenarios::Named(part.to_owned()));
            [names.core.len(), names.selected.len(), names.others.len(), names.ignored.len()]
        };
        assert_eq!(named("cuts"), [0, 2, 0, 0]);
        assert_eq!(named("smoke"), [1, 0, 0, 0]);
        assert_eq!(named("hosts"), [0, 3, 0, 1]);
    }

    #[test]
    fn every_share_runs_the_core() {
        for share in PartNumber::all(3) {
            let names = select(&VmScenarios::Share(share));
            assert_eq!((names.core.len(), names.selected.len(), names.others.len()), (1, 1, 2));
        }
    }
}
