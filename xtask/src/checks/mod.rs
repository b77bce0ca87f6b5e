//! `cargo xtask test`: every check that a change must pass, in order, the quick ones first.
//!
//! The first failure ends the run. Each check's time is in a table at the end; the last line is
//! `N passed, N failed`, in which a test counts as one and so does any other check.

mod dependencies;
mod executable;
mod tally;

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::consent::Consent;
use crate::workspace::Workspace;
use crate::{demo, invocation, vm};
pub use tally::{Runner, Tally};

/// What a check may use.
struct Bench<'w> {
    workspace: &'w Workspace,
    consent: Consent,
    runner: Runner,
    extent: Extent,
}

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Formatting, lints and the library's own tests.
    Quick,
    /// Everything that a change must pass.
    Full,
    /// The same with more crashes tried.
    Exhaustive,
}

/// When a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// Only with `--quick`: the full run has a check that includes it.
    Quick,
    Full,
}

struct Check {
    name: &'static str,
    when: When,
    run: fn(&Bench<'_>) -> Result<Tally>,
}

const CHECKS: &[Check] = &[
    check("formatting", When::Always, formatting),
    check("lints", When::Always, lints),
    check("lints without the worker", When::Full, lints_without_worker),
    check("library tests", When::Quick, library_tests),
    check("documentation", When::Full, documentation),
    check("tests", When::Full, tests),
    check("documentation tests", When::Full, documentation_tests),
    check("release build", When::Full, release_build),
    check("the executable", When::Full, release_executable),
    check("the executable, killed", When::Full, release_killed),
    check("the executable, idle", When::Full, release_idle),
    check("demo", When::Full, demonstration),
    check("dependencies", When::Full, dependency_rules),
    check("hosts that boot", When::Full, hosts),
];

const fn check(name: &'static str, when: When, run: fn(&Bench<'_>) -> Result<Tally>) -> Check {
    Check { name, when, run }
}

/// How a check ended.
enum Verdict {
    Ended(Tally, Duration),
    NotRun,
}

/// Runs the checks; the exit code is failure when one of them failed.
pub fn run(workspace: &Workspace, consent: Consent, extent: Extent) -> ExitCode {
    let bench = Bench { workspace, consent, runner: Runner::installed(workspace), extent };
    let left_out = if extent == Extent::Quick { When::Full } else { When::Quick };
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for check in CHECKS.iter().filter(|check| check.when != left_out) {
        let verdict = if total.failed > 0 { Verdict::NotRun } else { run_check(check, &bench) };
        if let Verdict::Ended(tally, _) = verdict {
            total = total + tally;
        }
        rows.push((check.name, verdict));
    }
    print_table(&rows);
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_check(check: &Check, bench: &Bench<'_>) -> Verdict {
    println!("\n==== {} ====", check.name);
    let start = Instant::now();
    let tally = (check.run)(bench).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        Tally::FAILED
    });
    Verdict::Ended(tally, start.elapsed())
}

fn print_table(rows: &[(&str, Verdict)]) {
    println!();
    for (name, verdict) in rows {
        match verdict {
            Verdict::Ended(tally, time) => {
                let word = if tally.failed == 0 { "ok" } else { "FAILED" };
                println!("{name:<26} {:>8.1} s  {word}", time.as_secs_f64());
            }
            Verdict::NotRun => println!("{name:<26} {:>8}    not run", "-"),
        }
    }
    println!();
}

fn one(command: &mut Command) -> Result<Tally> {
    invocation::run(command).map(|()| Tally::PASSED)
}

/// Whether cargo knows `name`, given by one of its own or an installed program.
fn has_subcommand(workspace: &Workspace, name: &str) -> bool {
    workspace
        .cargo(&[name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn formatting(bench: &Bench<'_>) -> Result<Tally> {
    one(&mut bench.workspace.cargo(&["fmt", "--all", "--check"]))
}

fn lints(bench: &Bench<'_>) -> Result<Tally> {
    // The scenarios are built on demand only, and linted always.
    let scope = ["clippy", "--workspace", "--all-targets", "--features", "vm/scenarios"];
    one(bench.workspace.cargo(&scope).args(["--", "-D", "warnings"]))
}

fn lints_without_worker(bench: &Bench<'_>) -> Result<Tally> {
    let scope = ["clippy", "--package", "flameholder", "--no-default-features", "--features", "openssl"];
    let targets = ["--lib", "--bins", "--", "-D", "warnings"];
    one(bench.workspace.cargo(&scope).args(targets))
}

fn documentation(bench: &Bench<'_>) -> Result<Tally> {
    let scope = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    one(bench.workspace.cargo(&scope).env("RUSTDOCFLAGS", "-D warnings"))
}

fn library_tests(bench: &Bench<'_>) -> Result<Tally> {
    counted_tests(bench, &["--package", "flameholder", "--lib"])
}

fn tests(bench: &Bench<'_>) -> Result<Tally> {
    let everything = ["--workspace", "--tests"];
    match bench.runner {
        Runner::Cargo => counted_tests(bench, &everything),
        // The release executable is what is killed, once it is built.
        Runner::Nextest => counted_tests(bench, &[&everything[..], &["-E", "not binary(kills)"]].concat()),
    }
}

fn release_killed(bench: &Bench<'_>) -> Result<Tally> {
    let mut command = test_command(bench, &["--package", "flameholder", "--test", "kills"]);
    command.env("FLAMEHOLDER_BINARY", bench.workspace.executable("flameholder"));
    bench.runner.count(&mut command)
}

/// Only the release executable is as small as it has to be.
fn release_idle(bench: &Bench<'_>) -> Result<Tally> {
    let mut command =
        test_command(bench, &["--package", "flameholder", "--test", "daemon", "beside_a_large"]);
    command.env("FLAMEHOLDER_BINARY", bench.workspace.executable("flameholder"));
    bench.runner.count(&mut command)
}

fn counted_tests(bench: &Bench<'_>, scope: &[&str]) -> Result<Tally> {
    bench.runner.count(&mut test_command(bench, scope))
}

fn test_command(bench: &Bench<'_>, scope: &[&str]) -> Command {
    let words: &[&str] = match bench.runner {
        Runner::Cargo => &["test", "--no-fail-fast"],
        Runner::Nextest => &["nextest", "run", "--no-fail-fast"],
    };
    let mut command = bench.workspace.cargo(words);
    if bench.extent == Extent::Exhaustive {
        command.env("FLAMEHOLDER_EXHAUSTIVE", "1");
    }
    command.args(scope);
    command
}

/// Apart from the others because nextest does not run them.
fn documentation_tests(bench: &Bench<'_>) -> Result<Tally> {
    Runner::Cargo.count(&mut bench.workspace.cargo(&["test", "--workspace", "--doc"]))
}

/// Last, as it takes longest.
fn hosts(bench: &Bench<'_>) -> Result<Tally> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can build a host that boots");
        return Ok(Tally::default());
    }
    let scenarios = vm::Scenarios { name: None, is_exhaustive: bench.extent == Extent::Exhaustive };
    vm::test(bench.workspace, bench.consent, &scenarios)
}

fn release_build(bench: &Bench<'_>) -> Result<Tally> {
    bench.workspace.build_release().map(|()| Tally::PASSED)
}

fn release_executable(bench: &Bench<'_>) -> Result<Tally> {
    executable::ensure_lean(&bench.workspace.executable("flameholder")).map(|()| Tally::PASSED)
}

fn demonstration(bench: &Bench<'_>) -> Result<Tally> {
    demo::show(bench.workspace, false, None).map(|()| Tally::PASSED)
}

fn dependency_rules(bench: &Bench<'_>) -> Result<Tally> {
    dependencies::ensure_allowed(bench.workspace, bench.consent).map(|()| Tally::PASSED)
}
