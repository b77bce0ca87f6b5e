//! `cargo xtask vm`: builds hosts that boot, shows one, and runs the tests that need them.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::Subcommand;

use crate::checks::{Runner, Tally};
use crate::consent::Consent;
use crate::workspace::Workspace;
use crate::{invocation, setup};

/// Names the folder of the executables that go into the guest, in place of the release build.
const BINARIES: &str = "FLAMEHOLDER_BINARIES";
/// The programs of tests on hosts that boot.
const PROGRAMS: [&str; 3] = ["hosts", "smoke", "vm"];

#[derive(Debug, Subcommand)]
pub enum VmVerb {
    /// Make the hosts that the tests boot: what is missing, and what is out of date.
    Build,
    /// Boot a host on this terminal, on a disk that is thrown away afterwards.
    Run {
        /// The version of the OS that it boots.
        #[arg(long, value_name = "N", default_value = "1")]
        os: String,
        /// A port on loopback that leads to one of the guest's, which is given after a colon.
        #[arg(long, value_name = "HERE:GUEST")]
        forward: Vec<String>,
    },
    /// Run the tests that need a booted host.
    Test {
        /// Only those with this in their name.
        name: Option<String>,
    },
}

pub fn run(workspace: &Workspace, consent: Consent, verb: &VmVerb) -> Result<ExitCode> {
    match verb {
        VmVerb::Build => build(workspace, consent)?,
        VmVerb::Run { os, forward } => {
            prepare(workspace, consent)?;
            let forwards = forward.iter().flat_map(|ports| ["--forward", ports]);
            invocation::run(program(workspace, "run").args(["--os", os]).args(forwards))?;
        }
        VmVerb::Test { name } => {
            let scenarios = Scenarios { name: name.as_deref(), is_exhaustive: false };
            let tally = test(workspace, consent, &scenarios)?;
            return Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Which tests run, and how much of each.
pub struct Scenarios<'a> {
    /// Only those with this in their name.
    pub name: Option<&'a str>,
    /// Whether there are hours for them.
    pub is_exhaustive: bool,
}

/// How many hosts run at a time. Each has two processors, which it keeps busy for half of the time.
const HOSTS: &str = "--test-threads=2";

/// Builds the hosts and runs the tests on them.
pub fn test(workspace: &Workspace, consent: Consent, scenarios: &Scenarios<'_>) -> Result<Tally> {
    build(workspace, consent)?;
    let runner = Runner::installed(workspace);
    let mut command = workspace.cargo(match runner {
        Runner::Cargo => &["test", "--no-fail-fast"],
        Runner::Nextest => &["nextest", "run", "--no-fail-fast"],
    });
    command.env("FLAMEHOLDER_VM", workspace.target().join("vm")).env("RUST_LIB_BACKTRACE", "0");
    command.args(["--package", "vm", "--features", "vm/scenarios", "--tests"]);
    if scenarios.is_exhaustive {
        command.env("FLAMEHOLDER_EXHAUSTIVE", "1");
    }
    let name = scenarios.name;
    match runner {
        Runner::Cargo => command.args(name).args(["--", HOSTS]),
        Runner::Nextest => {
            let filter = name.map(filter);
            command.args(filter.iter().flat_map(|filter| ["-E", filter])).arg(HOSTS)
        }
    };
    runner.count(&mut command)
}

/// The tests with that in their name, or in that of their program. nextest takes no name of a program that none has.
fn filter(name: &str) -> String {
    let programs = PROGRAMS.iter().filter(|program| program.contains(name));
    programs.fold(format!("test({name})"), |filter, program| format!("{filter} + binary({program})"))
}

fn build(workspace: &Workspace, consent: Consent) -> Result<()> {
    prepare(workspace, consent)?;
    invocation::run(&mut program(workspace, "build"))
}

/// Builds the programs that build hosts, and what goes into the hosts.
fn prepare(workspace: &Workspace, consent: Consent) -> Result<()> {
    setup::ensure_vm_installed(consent)?;
    ensure!(rustix::process::geteuid().is_root(), "building a host needs root: it mounts file systems");
    if std::env::var_os(BINARIES).is_none() {
        workspace.build_release()?;
    } else {
        invocation::run(&mut workspace.cargo(&[
            "build",
            "--release",
            "--package",
            "osimage",
            "--package",
            "rpmostreed",
        ]))?;
    }
    invocation::run(&mut workspace.cargo(&["build", "--package", "vm", "--bins"]))
}

fn program(workspace: &Workspace, verb: &str) -> Command {
    let release = workspace.target().join("release");
    let mut command = Command::new(workspace.target().join("debug/vm"));
    // Not a debug build: it checksums some hundred megabytes.
    command.arg(verb).arg("--osimage").arg(workspace.executable("osimage"));
    command.arg("--binaries").arg(std::env::var_os(BINARIES).map_or(release, PathBuf::from));
    command.env("FLAMEHOLDER_VM", workspace.target().join("vm"));
    command
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn a_program_is_named_only_where_there_is_one() {
        assert_eq!(filter("a_rollback"), "test(a_rollback)");
        assert_eq!(filter("smoke"), "test(smoke) + binary(smoke)");
    }
}
