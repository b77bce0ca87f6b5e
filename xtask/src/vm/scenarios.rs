//! The scenarios on virtual machines, and a selection of them.

use std::fmt;

use anyhow::Result;

use super::guest_os::GuestOs;
use super::share;
use crate::consent::InstallConsent;
use crate::install;
use crate::package;
use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;
use crate::testing::{IgnoredTests, NEXT_RELEASE, SkippedGroup, TestRunner, TestSelection, TestTally};

/// Executable of the smoke tests, which each share runs.
const CORE: &str = "smoke";
/// Scenario of that executable which runs on hosts with SELinux too, so that it is in every run.
const SIGNATURES: &str = "signed_image_is_staged_and_an_unsigned_one_refused";
/// Executable of the scenarios that are divided into shares.
const DIVIDED: &str = "hosts";
/// Scenarios that exchange the agent with the next release.
const WITH_NEXT_RELEASE: &str = "generations::releases::";
/// Scenarios that install a package.
const WITH_PACKAGES: &str = "installations::";
/// Environment variable with the directory of the packages.
const PACKAGES: &str = "FLAMEHOLDER_PACKAGES";
/// Scenarios that build images of the Containerfiles.
const WITH_IMAGES: [&str; 2] = ["images::", "kola::agent_of_another_image_reads_what_this_one_wrote"];
/// Environment variable with the folder of the installation that the images copy.
const INSTALLED: &str = "FLAMEHOLDER_INSTALLED";
/// Scenarios that run on hosts with SELinux only.
const WITH_SELINUX: &str = "confinement::";
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

    /// List the scenarios of an operating system that are divided into shares, sorted.
    fn divided(&self, os: GuestOs) -> Result<Vec<String>> {
        let mut names = match os {
            GuestOs::Plain => {
                let mut names = self.list(DIVIDED, ignored_tests(self.is_exhaustive))?;
                names.retain(|name| !name.starts_with(WITH_SELINUX));
                names
            }
            GuestOs::Selinux => share::CONFINED.map(str::to_owned).to_vec(),
        };
        names.sort();
        Ok(names)
    }
}

/// A selection of scenarios.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmScenarios {
    /// Scenarios with this text in their name, or in that of their executable, on hosts with this operating system.
    Named(String, GuestOs),
    /// One share, and the smoke tests if it has scenarios on plain hosts.
    Share(PartNumber),
}

/// Result of a run: numbers of tests, and the groups of scenarios that were not in it.
#[derive(Debug, Default)]
pub struct ScenarioResult {
    pub tally: TestTally,
    pub skipped: Vec<SkippedGroup>,
}

impl ScenarioResult {
    /// Add the result of other scenarios.
    pub fn add(&mut self, other: Self) {
        self.tally = self.tally + other.tally;
        self.skipped.extend(other.skipped);
    }

    /// Count a group of scenarios as skipped, unless it is empty.
    pub fn skip(&mut self, group: SkippedGroup) {
        if group.count > 0 {
            self.tally.skipped += group.count;
            self.skipped.push(group);
        }
    }
}

impl fmt::Display for VmScenarios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(part, _) => write!(f, "scenarios with `{part}` in their name"),
            Self::Share(share) => write!(f, "share {share} of the scenarios"),
        }
    }
}

impl VmScenarios {
    /// List the operating systems that have scenarios of this selection.
    pub fn systems(&self) -> Vec<GuestOs> {
        match self {
            Self::Named(_, os) => vec![*os],
            Self::Share(number) => {
                let systems = [GuestOs::Plain, GuestOs::Selinux];
                systems.into_iter().filter(|os| share::part_of(*os, *number).is_some()).collect()
            }
        }
    }

    /// Run the scenarios of one operating system on the virtual machines, which are built already.
    ///
    /// # Errors
    /// The scenarios cannot be built, listed or run. A failed scenario is no error.
    pub fn run(&self, run: &ScenarioRun<'_>, consent: InstallConsent, os: GuestOs) -> Result<ScenarioResult> {
        let ScenarioRun { tree, runner, is_exhaustive, .. } = *run;
        let ScenarioNames { core, mut selected, others, ignored } = self.names(run, os)?;
        let is_possible = |name: &String| tree.has_next_release() || !name.starts_with(WITH_NEXT_RELEASE);
        let impossible: Vec<_> = selected.extract_if(.., |name| !is_possible(name)).collect();
        let names = [core, selected].concat();
        let tests = TestSelection { threads: Some(MACHINES), ..TestSelection::of(run.build.targets(runner)) };
        let tests = tests.named(&names).with_ignored(ignored_tests(is_exhaustive));
        let mut command = tests.command(tree, runner);
        command.envs([tree.vm_variable()]).env("RUST_LIB_BACKTRACE", "0");
        command.env("FLAMEHOLDER_VM_OS", os.variable()).env(NEXT_RELEASE, tree.next_release());
        if names.iter().any(|name| name.starts_with(WITH_PACKAGES)) {
            command.env(PACKAGES, package::build_for_tests(tree, consent)?);
        }
        if names.iter().any(|name| WITH_IMAGES.iter().any(|start| name.starts_with(start))) {
            command.env(INSTALLED, install::run_for_tests(tree, consent)?);
        }
        if is_exhaustive {
            command.env("FLAMEHOLDER_EXHAUSTIVE", "1");
        }
        let tally = TestTally { skipped: 0, ..runner.count(&mut command)? };
        let mut result = ScenarioResult { tally, skipped: Vec::new() };
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
        for group in skipped {
            result.skip(group);
        }
        Ok(result)
    }

    /// Return the scenarios of operating systems that have none in this selection.
    ///
    /// # Errors
    /// The scenarios cannot be built or listed.
    pub fn of_other_systems(&self, run: &ScenarioRun<'_>) -> Result<SkippedGroup> {
        let systems = self.systems();
        let mut names = Vec::new();
        for os in [GuestOs::Plain, GuestOs::Selinux] {
            if matches!(self, Self::Share(_)) && !systems.contains(&os) {
                names.extend(run.divided(os)?);
            }
        }
        Ok(SkippedGroup::new(
            "scenarios on hosts of another operating system",
            "cargo xtask vm test --share K/N runs them",
            names,
        ))
    }

    /// Print the selected scenarios, with the seconds that each takes.
    ///
    /// # Errors
    /// The scenarios cannot be built or listed.
    pub fn print(&self, run: &ScenarioRun<'_>) -> Result<()> {
        for os in self.systems() {
            let names = self.names(run, os)?;
            names.core.iter().for_each(|name| println!("{:>5}  {CORE}::{name}", "-"));
            let seconds = |name: &String| share::seconds(name, run.is_exhaustive);
            names.selected.iter().for_each(|name| println!("{:>5}  {name}", seconds(name)));
            let seconds: u32 = names.selected.iter().map(seconds).sum();
            println!("{:>5}  in all on {} hosts, {MACHINES} at a time", seconds / MACHINES, os.variable());
        }
        Ok(())
    }

    fn names(&self, run: &ScenarioRun<'_>, os: GuestOs) -> Result<ScenarioNames> {
        let core = run.list(CORE, IgnoredTests::Excluded)?;
        let divided = match self {
            Self::Named(..) => run.list(DIVIDED, ignored_tests(run.is_exhaustive))?,
            Self::Share(_) => run.divided(os)?,
        };
        let ignored = if run.is_exhaustive { Vec::new() } else { run.list(DIVIDED, IgnoredTests::Only)? };
        Ok(self.select(os, core, divided, ignored, run.is_exhaustive))
    }

    fn select(
        &self,
        os: GuestOs,
        core: Vec<String>,
        divided: Vec<String>,
        ignored: Vec<String>,
        is_exhaustive: bool,
    ) -> ScenarioNames {
        let matches =
            |executable: &str, name: &str, part: &str| executable.contains(part) || name.contains(part);
        match self {
            Self::Named(part, _) => ScenarioNames {
                core: core.into_iter().filter(|name| matches(CORE, name, part)).collect(),
                selected: divided.into_iter().filter(|name| matches(DIVIDED, name, part)).collect(),
                others: Vec::new(),
                ignored: ignored.into_iter().filter(|name| matches(DIVIDED, name, part)).collect(),
            },
            Self::Share(number) => {
                let part = share::part_of(os, *number);
                let selected =
                    part.map(|part| share::assign(&divided, part, is_exhaustive)).unwrap_or_default();
                let others = divided.into_iter().filter(|name| !selected.contains(name)).collect();
                match os {
                    GuestOs::Plain => ScenarioNames { core, selected, others, ignored },
                    GuestOs::Selinux => {
                        let core = core.into_iter().filter(|name| name == SIGNATURES).collect();
                        ScenarioNames { core, selected, others, ignored: Vec::new() }
                    }
                }
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
        scenarios.select(GuestOs::Plain, names(&["starts"]), divided, names(&["kola::d"]), false)
    }

    #[test]
    fn name_selects_by_executable_and_by_test() {
        let named = |part: &str| {
            let names = select(&VmScenarios::Named(part.to_owned(), GuestOs::Plain));
            [names.core.len(), names.selected.len(), names.others.len(), names.ignored.len()]
        };
        assert_eq!(named("cuts"), [0, 2, 0, 0]);
        assert_eq!(named("smoke"), [1, 0, 0, 0]);
        assert_eq!(named("hosts"), [0, 3, 0, 1]);
    }

    #[test]
    fn every_share_of_plain_hosts_runs_the_core() {
        for share in PartNumber::all(6).take(3) {
            let names = select(&VmScenarios::Share(share));
            assert_eq!((names.core.len(), names.selected.len(), names.others.len()), (1, 1, 2));
        }
    }

    #[test]
    fn last_shares_are_of_hosts_with_selinux() {
        let systems: Vec<_> = PartNumber::all(5).map(|share| VmScenarios::Share(share).systems()).collect();
        let (plain, selinux) = (vec![GuestOs::Plain], vec![GuestOs::Selinux]);
        assert_eq!(
            systems,
            [&[plain.clone(), plain][..], &[selinux.clone(), selinux.clone(), selinux]].concat()
        );
        assert_eq!(VmScenarios::Share(PartNumber::WHOLE).systems(), [GuestOs::Plain, GuestOs::Selinux]);
    }
}
