//! The checks that run tests.

use anyhow::{Context, Result};

use super::groups::{
    self, AS_ROOT, IDLE, KILLS, LONG, SLOW, TestGroup, WITH_API_SERVER, WITH_DEBIAN_TOOLS, WITH_NEXT_RELEASE,
};
use super::{CheckOutcome, CheckRun};
use crate::commit::TestedCommit;
use crate::part_number::PartNumber;
use crate::testing::{IgnoredTests, NEXT_RELEASE, SCOPE, SkippedGroup, TestRunner, TestSelection, TestTally};
use crate::vm::{self, ScenarioBuild, ScenarioRun, VmScenarios};
use crate::{fuzz, invocation};

/// Environment variable that makes tests explore more.
const EXHAUSTIVE: &str = "FLAMEHOLDER_EXHAUSTIVE";
/// Environment variable with the executable that tests run instead of the debug build.
const BINARY: &str = "FLAMEHOLDER_BINARY";

/// Seconds for which a check fuzzes a target.
const FUZZED: u32 = 60;

/// Run the house rules, which need nothing but the sources; always by `cargo test`, which builds no other
/// test.
pub fn house_rules(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let selection = TestSelection::of(&["--test", "house"]);
    let tally = TestRunner::Cargo.count(&mut selection.command(run.tree, TestRunner::Cargo))?;
    Ok(CheckOutcome::new(tally, Vec::new()))
}

/// Run the libraries' own tests.
pub fn library_tests(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let tally = run.runner.count(&mut TestSelection::of(&["--lib"]).command(run.tree, run.runner))?;
    Ok(CheckOutcome::new(tally, Vec::new()))
}

/// Build the executables of the next release, and read the documents of earlier releases with it.
///
/// The executables are copied to a folder of their own, as the build of the tests replaces them. Only the agent itself is
/// compiled once more: the selection of dependencies is that of all tests.
pub fn next_release(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let folder = run.tree.next_release();
    // Not overwritten: a test may still run the earlier ones. Nor kept: those of another commit are not the next release.
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = run.tree.cargo(&["test", "--test", "core"]);
    command.args(SCOPE).args(["--features", "flameholder/next-schema", "--", "documents::"]);
    let tally = TestRunner::Cargo.count(&mut command)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for name in ["flameholder", "flameholder-ostree"] {
        let (built, kept) = (run.tree.target().join("debug").join(name), folder.join(name));
        std::fs::copy(&built, &kept).with_context(|| format!("copying {}", built.display()))?;
    }
    Ok(CheckOutcome::new(TestTally { skipped: 0, ..tally }, Vec::new()))
}

/// Build all tests, so that the times of the other checks are those of the tests alone.
pub fn test_build(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    invocation::run(run.tree.cargo(&["test", "--no-run", "--quiet", "--tests"]).args(SCOPE))?;
    Ok(CheckOutcome::PASSED)
}

/// Run the tests that need no release command, and count those whose precondition is missing as skipped.
pub fn tests(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let missing = missing_preconditions(run);
    let unavailable: Vec<_> = missing.iter().map(|(group, _)| *group).collect();
    let has_shares = groups::root_obstacle().is_none() && !run.extent.is_exhaustive();
    let excluded =
        if has_shares { [&unavailable[..], &[&LONG, &SLOW]].concat() } else { unavailable.clone() };
    let selection = groups::remaining_tests(&excluded, ignored_tests(run)).with_threads(many_threads());
    let mut tally = count(run, &selection, run.extent.part(), None)?;
    let mut skipped = Vec::new();
    let shares = [(&SLOW, run.extent.turn()), (&LONG, run.extent.share())];
    for (group, share) in shares.into_iter().filter(|_| has_shares) {
        let tests = group.selection_but(&unavailable, run.runner, ignored_tests(run));
        let tests = tests.with_threads(many_threads());
        let outcome = share_of(run, group.subject, &tests, share, None)?;
        tally = tally + TestTally { skipped: 0, ..outcome.tally };
        skipped.extend(outcome.skipped);
    }
    for (group, reason) in missing {
        let names = group.selection(run.runner, IgnoredTests::Included).list(run.tree, run.runner)?;
        skipped.push(SkippedGroup::new(group.subject, reason, names));
    }
    if !run.extent.is_exhaustive() {
        let ignored = groups::remaining_tests(&unavailable, IgnoredTests::Only);
        let names = ignored.list(run.tree, run.runner)?;
        skipped.push(SkippedGroup::new("exhaustive tests", "cargo xtask test --exhaustive runs them", names));
    }
    if run.extent.part() != PartNumber::WHOLE {
        let all = u32::try_from(selection.list(run.tree, run.runner)?.len())?;
        let others = all.saturating_sub(tally.passed + tally.failed);
        skipped.push(SkippedGroup::unnamed("tests", "other parts of the exhaustive run", others));
    }
    Ok(CheckOutcome::new(tally, skipped))
}

/// Return the number of tests that run at a time: one more than there are processors, as many tests wait for the retries and
/// intervals of the product.
fn many_threads() -> Option<u32> {
    let processors = std::thread::available_parallelism().ok()?;
    u32::try_from(processors.get() + 1).ok()
}

/// Run the tests in the documentation, which nextest does not run.
pub fn documentation_tests(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let tally = TestRunner::Cargo.count(run.tree.cargo(&["test", "--doc"]).args(SCOPE))?;
    Ok(CheckOutcome::new(tally, Vec::new()))
}

/// Kill the release executable at random moments.
pub fn kills(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    if let Some(reason) = groups::root_obstacle() {
        return skip(run, &KILLS, &reason);
    }
    let executable = run.tree.executable("flameholder");
    let tests = KILLS.selection(run.runner, ignored_tests(run));
    share_of(run, KILLS.subject, &tests, run.extent.share(), Some(&executable))
}

/// Run the tests of TLS with the release executable, but those whose precondition is missing: the check of all tests lists
/// them.
pub fn tls(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let missing: Vec<_> = missing_preconditions(run).into_iter().map(|(group, _)| group).collect();
    println!("the release executable has {:?}", run.tree.tls());
    let selection = groups::tls_tests(&missing, run.runner, ignored_tests(run));
    let tally = count(run, &selection, PartNumber::WHOLE, Some(&run.tree.executable("flameholder")))?;
    Ok(CheckOutcome::new(tally, Vec::new()))
}

/// Run a share of tests, and count those of the other shares as skipped.
fn share_of(
    run: &CheckRun<'_>,
    subject: &'static str,
    selection: &TestSelection,
    share: PartNumber,
    executable: Option<&std::path::Path>,
) -> Result<CheckOutcome> {
    println!("share {share} of the {subject}");
    let tally = count(run, selection, share, executable)?;
    let all = u32::try_from(selection.list(run.tree, run.runner)?.len())?;
    let others = all.saturating_sub(tally.passed + tally.failed);
    let skipped =
        SkippedGroup::unnamed(subject, "other shares; cargo xtask test --share K/N runs them", others);
    Ok(CheckOutcome::new(tally, vec![skipped]))
}

/// Measure the idle daemon: memory, wake-ups, requests.
pub fn idle(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    if let Some(reason) = groups::root_obstacle().or_else(|| groups::api_server_obstacle(run.tree)) {
        return skip(run, &IDLE, &reason);
    }
    let mut command = IDLE.selection(run.runner, IgnoredTests::Included).command(run.tree, run.runner);
    command.env(BINARY, run.tree.executable("flameholder"));
    // The measured memory is worth a line in the log.
    match run.runner {
        TestRunner::Cargo => command.arg("--show-output"),
        TestRunner::Nextest => command.arg("--success-output=immediate"),
    };
    Ok(CheckOutcome::new(run.runner.count(&mut command)?, Vec::new()))
}

/// Fuzz parsers for a minute each: one of them in the last share, all in the last part of an exhaustive run.
pub fn fuzzing(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    let (share, targets) = (run.extent.share(), fuzz::targets(run.tree)?);
    if share.index() < share.count() {
        let reason = "the last share does it; cargo xtask fuzz runs it";
        return Ok(CheckOutcome::skipped(SkippedGroup::unnamed("fuzzing", reason, 1)));
    }
    fuzz::ensure_installed(run.tree, run.consent)?;
    let chosen = TestedCommit::chosen_item(run.tree, &targets);
    let targets = if run.extent.is_exhaustive() { targets.iter().collect() } else { Vec::from_iter(chosen) };
    targets.into_iter().try_for_each(|target| fuzz::fuzz(run.tree, target, FUZZED))?;
    Ok(CheckOutcome::PASSED)
}

/// Compile and link the SELinux modules.
pub fn selinux_modules(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    if let Some(skipped) = skipped_without_root("the SELinux modules") {
        return Ok(skipped);
    }
    vm::policy(run.tree, run.consent, ScenarioBuild::WithAllTests)?;
    Ok(CheckOutcome::PASSED)
}

/// Build the Debian tree with programs that this machine may have in older versions only.
pub fn debian_tools(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    if let Some(skipped) = skipped_without_root("the Debian tools") {
        return Ok(skipped);
    }
    vm::builder(run.tree, run.consent, ScenarioBuild::WithAllTests)?;
    Ok(CheckOutcome::PASSED)
}

/// Run scenarios on virtual machines: the run's share.
pub fn virtual_machines(run: &mut CheckRun<'_>) -> Result<CheckOutcome> {
    if let Some(skipped) = skipped_without_root("scenarios on virtual machines") {
        return Ok(skipped);
    }
    let build = ScenarioBuild::WithAllTests;
    let is_exhaustive = run.extent.is_exhaustive();
    let scenarios = VmScenarios::Share(run.extent.share());
    println!("{scenarios}");
    let scenario_run = ScenarioRun { tree: run.tree, runner: run.runner, build, is_exhaustive };
    let result = vm::run_scenarios(&scenario_run, run.consent, &scenarios)?;
    Ok(CheckOutcome { tally: result.tally, skipped: result.skipped })
}

/// The outcome of a check that needs root, without which it is skipped.
fn skipped_without_root(subject: &'static str) -> Option<CheckOutcome> {
    let reason = groups::root_obstacle()?;
    Some(CheckOutcome::skipped(SkippedGroup::unnamed(subject, reason, 1)))
}

/// The groups whose tests cannot run on this machine, each with the reason.
fn missing_preconditions(run: &CheckRun<'_>) -> Vec<(&'static TestGroup, String)> {
    if let Some(reason) = groups::root_obstacle() {
        return vec![(&AS_ROOT, reason)];
    }
    let api_server = groups::api_server_obstacle(run.tree).map(|reason| (&WITH_API_SERVER, reason));
    let next_release = groups::next_release_obstacle(run.tree).map(|reason| (&WITH_NEXT_RELEASE, reason));
    let debian_tools = groups::debian_tools_obstacle(run.tree).map(|reason| (&WITH_DEBIAN_TOOLS, reason));
    api_server.into_iter().chain(next_release).chain(debian_tools).collect()
}

/// Skip a group that only its own check runs. If the check of all tests lists it already, its tests count
/// once.
fn skip(run: &CheckRun<'_>, group: &TestGroup, reason: &str) -> Result<CheckOutcome> {
    let names = group.selection(run.runner, IgnoredTests::Included).list(run.tree, run.runner)?;
    let count = u32::try_from(names.len())?;
    println!("skipped: {count}, {}: {reason}", group.subject);
    Ok(CheckOutcome::default())
}

/// Run one part of a selection, with `executable` in place of the debug build.
fn count(
    run: &CheckRun<'_>,
    selection: &TestSelection,
    part: PartNumber,
    executable: Option<&std::path::Path>,
) -> Result<TestTally> {
    let mut command = selection.part_command(run.tree, run.runner, part)?;
    if run.extent.is_exhaustive() {
        command.env(EXHAUSTIVE, "1");
    }
    command.envs([run.tree.vm_variable()]).envs(executable.map(|path| (BINARY, path)));
    if run.tree.has_next_release() {
        command.env(NEXT_RELEASE, run.tree.next_release());
    }
    Ok(TestTally { skipped: 0, ..run.runner.count(&mut command)? })
}

fn ignored_tests(run: &CheckRun<'_>) -> IgnoredTests {
    if run.extent.is_exhaustive() { IgnoredTests::Included } else { IgnoredTests::Excluded }
}
