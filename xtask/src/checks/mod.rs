//! `cargo xtask test`: every check that a change must pass, the quick ones first.
//!
//! A failed check does not end the run. A check that needs the result of a failed one is not run and counts
//! as skipped. A table shows each check with its time, followed by the groups of tests that were skipped,
//! each with its reason. The last line is `N passed, N failed, N skipped`, in which a test counts as one and so
//! does any other check. A test that one check leaves out and another runs, as the release executable's do, is
//! not counted as skipped.

mod build_checks;
mod dependencies;
mod executable;
mod exhaustive;
mod groups;
mod outcome;
mod test_checks;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use dependencies::DenyInstall;
pub use exhaustive::{is_complete as passed_exhaustively, print_report as print_exhaustive_report};
use outcome::{CheckOutcome, CheckRow};

use crate::commit::SHARES;
use crate::consent::InstallConsent;
use crate::part_number::PartNumber;
use crate::project_tree::{ProjectTree, TlsLibrary};
use crate::testing::TestRunner;

/// Turns in which the shares of full runs take the checks and tests that are slow, but not as slow as the long ones: each of
/// them is done by one share in three.
const TURNS: u32 = 3;

/// The extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestExtent {
    /// Formatting, house rules, lints and the libraries' own tests.
    Quick,
    /// Everything that a change must pass, with one share of the long tests and of the scenarios, and what falls to it of the
    /// slow tests and of the checks that the shares take in turn.
    Full(PartNumber),
    /// One part of the same with ignored tests, and with more crashes and power cuts.
    Exhaustive(PartNumber),
}

impl TestExtent {
    /// The library that speaks TLS in the release executables that this run builds: with the host's in each second share.
    fn tls(self) -> TlsLibrary {
        if self.share().index().is_multiple_of(2) { TlsLibrary::Openssl } else { TlsLibrary::Rustls }
    }

    /// The part of the slow tests that this run executes.
    fn turn(self) -> PartNumber {
        self.share().turn(TURNS)
    }

    fn is_exhaustive(self) -> bool {
        matches!(self, Self::Exhaustive(_))
    }

    /// The part of the tests that this run executes.
    fn part(self) -> PartNumber {
        match self {
            Self::Exhaustive(part) => part,
            Self::Quick | Self::Full(_) => PartNumber::WHOLE,
        }
    }

    /// The part of the long tests and of the scenarios that this run executes.
    fn share(self) -> PartNumber {
        match self {
            Self::Exhaustive(part) | Self::Full(part) => part,
            Self::Quick => PartNumber::WHOLE,
        }
    }
}

/// The environment of the checks of one run.
#[derive(Debug)]
struct CheckRun<'t> {
    tree: &'t ProjectTree,
    consent: InstallConsent,
    runner: TestRunner,
    extent: TestExtent,
    deny: DenyInstall,
}

/// The runs that a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckScope {
    /// Every run; of an exhaustive run, the first part.
    Always,
    /// Quick runs; in others, another check includes it.
    Quick,
    /// Full runs; of an exhaustive run, the first part.
    Full,
    /// Full runs, and each part of an exhaustive run.
    EachPart,
}

impl CheckScope {
    fn includes(self, extent: TestExtent) -> bool {
        match extent {
            TestExtent::Quick => matches!(self, Self::Always | Self::Quick),
            TestExtent::Full(_) => self != Self::Quick,
            TestExtent::Exhaustive(part) if part.index() == 1 => self != Self::Quick,
            TestExtent::Exhaustive(_) => self == Self::EachPart,
        }
    }
}

struct Check {
    name: &'static str,
    scope: CheckScope,
    /// Checks whose result this one uses.
    needs: &'static [&'static str],
    /// Shares of full runs that do it, where they take such checks in turn.
    turn: PartNumber,
    run: fn(&mut CheckRun<'_>) -> Result<CheckOutcome>,
}

impl Check {
    /// Leave the check to one of as many shares of full runs.
    const fn in_turn(self, turn: PartNumber) -> Self {
        Self { turn, ..self }
    }

    /// Check if a run whose extent includes the check leaves it to other shares.
    fn is_left_to_others(&self, extent: TestExtent) -> bool {
        matches!(extent, TestExtent::Full(share) if !self.turn.falls_to(share))
    }
}

const TEST_BUILD: &str = "test build";
const RELEASE_BUILD: &str = "release build";

const CHECKS: &[Check] = &[
    check("formatting", CheckScope::Always, &[], build_checks::formatting),
    check("house rules", CheckScope::Always, &[], test_checks::house_rules),
    check("lints", CheckScope::Always, &[], build_checks::lints),
    check("lints without the worker", CheckScope::Full, &[], build_checks::lints_without_worker)
        .in_turn(PartNumber::constant(2, TURNS)),
    check("library tests", CheckScope::Quick, &[], test_checks::library_tests),
    check("documentation", CheckScope::Full, &[], build_checks::documentation),
    check("next release", CheckScope::EachPart, &[], test_checks::next_release),
    check(TEST_BUILD, CheckScope::EachPart, &[], test_checks::test_build),
    check("manual", CheckScope::Full, &[TEST_BUILD], build_checks::manual),
    check("SELinux modules", CheckScope::Full, &[TEST_BUILD], test_checks::selinux_modules)
        .in_turn(PartNumber::constant(3, TURNS)),
    check("Debian tools", CheckScope::EachPart, &[TEST_BUILD], test_checks::debian_tools),
    check("tests", CheckScope::EachPart, &[TEST_BUILD], test_checks::tests),
    check("documentation tests", CheckScope::Full, &[], test_checks::documentation_tests),
    check(RELEASE_BUILD, CheckScope::EachPart, &[], build_checks::release_build),
    check("executable", CheckScope::Full, &[RELEASE_BUILD], build_checks::release_executable),
    check("packages", CheckScope::Full, &[RELEASE_BUILD], build_checks::packages),
    check("executable, killed", CheckScope::EachPart, &[TEST_BUILD, RELEASE_BUILD], test_checks::kills),
    check("executable, TLS", CheckScope::EachPart, &[TEST_BUILD, RELEASE_BUILD], test_checks::tls),
    check("executable, idle", CheckScope::Full, &[TEST_BUILD, RELEASE_BUILD], test_checks::idle),
    check("fuzzing", CheckScope::EachPart, &[], test_checks::fuzzing),
    check("book", CheckScope::Full, &[], build_checks::book).in_turn(PartNumber::constant(1, SHARES)),
    check("demo", CheckScope::Full, &[RELEASE_BUILD], build_checks::demo),
    check("dependencies", CheckScope::Full, &[], build_checks::dependencies),
    check(
        "virtual machines",
        CheckScope::EachPart,
        &[TEST_BUILD, RELEASE_BUILD],
        test_checks::virtual_machines,
    ),
];

const fn check(
    name: &'static str,
    scope: CheckScope,
    needs: &'static [&'static str],
    run: fn(&mut CheckRun<'_>) -> Result<CheckOutcome>,
) -> Check {
    Check { name, scope, needs, turn: PartNumber::WHOLE, run }
}

/// Run the checks; the exit code is a failure when one of them failed.
///
/// # Errors
/// The result of an exhaustive part cannot be written.
pub fn run(tree: &ProjectTree, consent: InstallConsent, extent: TestExtent) -> Result<ExitCode> {
    let checks: Vec<_> = CHECKS.iter().filter(|check| check.scope.includes(extent)).collect();
    let has_deny = checks.iter().any(|check| check.name == "dependencies");
    let deny = if has_deny { DenyInstall::start(tree, consent) } else { DenyInstall::default() };
    let runner = TestRunner::installed(tree);
    let built = tree.clone().with_tls(extent.tls());
    let mut run = CheckRun { tree: &built, consent, runner, extent, deny };
    let rows = run_all(&checks, &mut run);
    if extent.is_exhaustive() {
        exhaustive::keep(tree, extent.part(), &rows)?;
        exhaustive::print_report(tree)?;
    }
    println!("\n{}", outcome::render(&rows));
    let failed = outcome::total(&rows).failed;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_all(checks: &[&Check], run: &mut CheckRun<'_>) -> Vec<CheckRow> {
    let mut rows: Vec<CheckRow> = Vec::new();
    for check in checks {
        let failed = rows.iter().find(|row| check.needs.contains(&row.name) && !row.is_ok());
        rows.push(match failed {
            _ if check.is_left_to_others(run.extent) => CheckRow::left_to_others(check.name),
            Some(needed) => CheckRow::not_run(check.name, needed.name),
            None => run_check(check, run),
        });
    }
    rows
}

fn run_check(check: &Check, run: &mut CheckRun<'_>) -> CheckRow {
    println!("\n==== {} ====", check.name);
    let start = Instant::now();
    let outcome = (check.run)(run).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        CheckOutcome::FAILED
    });
    CheckRow { name: check.name, outcome, time: Some(start.elapsed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: TestExtent = TestExtent::Full(PartNumber::WHOLE);

    fn names(extent: TestExtent) -> Vec<&'static str> {
        let done = |check: &&Check| check.scope.includes(extent) && !check.is_left_to_others(extent);
        CHECKS.iter().filter(done).map(|check| check.name).collect()
    }

    fn part(index: u32) -> TestExtent {
        TestExtent::Exhaustive(PartNumber::new(index, 8).unwrap())
    }

    #[test]
    fn every_need_is_an_earlier_check_of_the_same_run() {
        let shares = PartNumber::all(SHARES).map(TestExtent::Full);
        for extent in shares.chain([TestExtent::Quick, FULL, part(1), part(2)]) {
            let names = names(extent);
            for check in CHECKS.iter().filter(|check| names.contains(&check.name)) {
                let place = |name: &str| names.iter().position(|other| *other == name);
                assert!(check.needs.iter().all(|need| place(need) < place(check.name)), "{}", check.name);
                assert!(check.needs.iter().all(|need| place(need).is_some()), "{}", check.name);
            }
        }
    }

    #[test]
    fn later_parts_repeat_only_builds_and_tests() {
        assert_eq!(names(part(1)), names(FULL));
        let repeated = [
            "next release",
            TEST_BUILD,
            "Debian tools",
            "tests",
            RELEASE_BUILD,
            "executable, killed",
            "executable, TLS",
            "fuzzing",
            "virtual machines",
        ];
        assert_eq!(names(part(2)), repeated);
        assert_eq!(names(TestExtent::Quick), ["formatting", "house rules", "lints", "library tests"]);
    }

    #[test]
    fn shares_take_some_checks_in_turn_and_leave_out_none() {
        let share = |index| names(TestExtent::Full(PartNumber::new(index, SHARES).unwrap()));
        let left_out = |index| -> Vec<_> {
            let done = share(index);
            names(FULL).into_iter().filter(|name| !done.contains(name)).collect()
        };
        assert_eq!(left_out(1), ["lints without the worker", "SELinux modules"]);
        assert_eq!(left_out(2), ["SELinux modules", "book"]);
        assert_eq!(left_out(3), ["lints without the worker", "book"]);
    }

    #[test]
    fn checks_after_a_failed_one_run_unless_they_need_it() {
        let tree = ProjectTree::locate().unwrap();
        let mut run = CheckRun {
            tree: &tree,
            consent: InstallConsent::Withheld,
            runner: TestRunner::Cargo,
            extent: FULL,
            deny: DenyInstall::default(),
        };
        let checks = [
            check("first", CheckScope::Full, &[], |_| anyhow::bail!("planted")),
            check("second", CheckScope::Full, &["first"], |_| Ok(CheckOutcome::PASSED)),
            check("third", CheckScope::Full, &["second"], |_| Ok(CheckOutcome::PASSED)),
            check("fourth", CheckScope::Full, &[], |_| Ok(CheckOutcome::PASSED)),
        ];
        let rows = run_all(&checks.iter().collect::<Vec<_>>(), &mut run);
        assert_eq!(outcome::total(&rows).to_string(), "1 passed, 1 failed, 2 skipped");
    }
}
