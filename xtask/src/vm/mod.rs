//! `cargo xtask vm`: builds virtual machines, boots one, and runs the scenarios on them.

mod guest_os;
mod scenarios;
mod share;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use guest_os::GuestOs;
use scenarios::ScenarioResult;
pub use scenarios::{ScenarioBuild, ScenarioRun, VmScenarios};

use crate::consent::InstallConsent;
use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;
use crate::testing::{SCOPE, SkippedGroup, TestRunner, TestTally};
use crate::{invocation, setup};

/// Environment variable with a directory of executables, which the guests get instead of the release build.
const BINARIES: &str = "FLAMEHOLDER_BINARIES";

/// Commands of `cargo xtask vm`.
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// Build the virtual machines that the scenarios boot: missing and outdated stages only.
    Build {
        /// Build the host with SELinux enforcing.
        #[arg(long)]
        selinux: bool,
    },
    /// Build the Debian tree with registry, skopeo and QEMU, which tests without a virtual machine use as well.
    Builder,
    /// Compile the SELinux modules, and link them with the policies of Debian 12 and 13.
    Policy,
    /// Boot a virtual machine on this terminal, on a temporary disk.
    Run {
        /// The version of the OS to boot.
        #[arg(long, value_name = "N", default_value = "1")]
        os: String,
        /// Forward a port of this machine's loopback to a port of the guest.
        #[arg(long, value_name = "HERE:GUEST")]
        forward: Vec<String>,
        /// Boot the host with SELinux enforcing.
        #[arg(long)]
        selinux: bool,
    },
    /// Run the scenarios on virtual machines.
    Test(VmTestArgs),
    /// Have kola itself run `tests/kola`, on a virtual machine that has what kola asks for.
    Kola {
        /// The executable of kola; without it, the one that is found by its name, and none is a skipped test.
        #[arg(long, value_name = "PATH")]
        kola: Option<PathBuf>,
        /// Names of the tests, with `*` for any part.
        #[arg(default_value = "ext.flameholder.*")]
        pattern: String,
    },
}

/// Options of `cargo xtask vm test`.
#[derive(Debug, Args)]
pub struct VmTestArgs {
    /// Run only scenarios with this in their name, or in that of their executable.
    name: Option<String>,
    /// Run one share of the scenarios, such as 1/4, and the smoke tests.
    #[arg(long, value_name = "K/N", conflicts_with = "name")]
    share: Option<PartNumber>,
    /// Run also the scenarios and power cuts that take hours.
    #[arg(long)]
    exhaustive: bool,
    /// Run the named scenarios on hosts with SELinux enforcing.
    #[arg(long, requires = "name")]
    selinux: bool,
    /// List the selected scenarios with the seconds that each takes, and run none.
    #[arg(long)]
    list: bool,
}

/// Play the demo on a booted host.
///
/// # Errors
/// A build fails, or the host is not as the demo says.
pub fn demo(tree: &ProjectTree, consent: InstallConsent) -> Result<()> {
    build(tree, consent, ScenarioBuild::Alone, GuestOs::Plain)?;
    invocation::run(&mut command(tree, "demo"))
}

/// Run a command of `cargo xtask vm`.
///
/// # Errors
/// A build fails, or QEMU cannot be run. A failed scenario is no error: the exit code shows it.
pub fn run(tree: &ProjectTree, consent: InstallConsent, command: &VmCommand) -> Result<ExitCode> {
    match command {
        VmCommand::Build { selinux } => {
            build(tree, consent, ScenarioBuild::Alone, GuestOs::of_option(*selinux))?;
        }
        VmCommand::Builder => builder(tree, consent, ScenarioBuild::Alone)?,
        VmCommand::Policy => policy(tree, consent, ScenarioBuild::Alone)?,
        VmCommand::Run { os, forward, selinux } => {
            prepare(tree, consent, ScenarioBuild::Alone)?;
            let forwards = forward.iter().flat_map(|ports| ["--forward", ports]);
            let option = GuestOs::of_option(*selinux).option();
            invocation::run(program(tree, "run").args(option).args(["--os", os]).args(forwards))?;
        }
        VmCommand::Test(args) => return test(tree, consent, args),
        VmCommand::Kola { kola, pattern } => return run_kola(tree, consent, kola.as_deref(), pattern),
    }
    Ok(ExitCode::SUCCESS)
}

/// Run the tests of kola by kola itself, which counts as one test.
fn run_kola(
    tree: &ProjectTree,
    consent: InstallConsent,
    kola: Option<&Path>,
    pattern: &str,
) -> Result<ExitCode> {
    let found = kola.map(Path::to_owned).or_else(|| setup::program("kola"));
    let Some(kola) = found else {
        let reason = "there is no kola on this machine; --kola PATH names it";
        println!("{}", SkippedGroup::unnamed("tests of kola", reason, 1));
        println!("{}", TestTally { skipped: 1, ..TestTally::default() });
        return Ok(ExitCode::SUCCESS);
    };
    ensure!(kola.is_file(), "{} is not the executable of kola", kola.display());
    prepare(tree, consent, ScenarioBuild::Alone)?;
    let passed = program(tree, "kola").arg("--kola").arg(kola).arg(pattern).status()?.success();
    println!("{}", if passed { TestTally::PASSED } else { TestTally::FAILED });
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn test(tree: &ProjectTree, consent: InstallConsent, args: &VmTestArgs) -> Result<ExitCode> {
    let runner = TestRunner::installed(tree);
    let scenarios = match (&args.name, args.share) {
        (Some(name), _) => VmScenarios::Named(name.clone(), GuestOs::of_option(args.selinux)),
        (None, Some(share)) => VmScenarios::Share(share),
        (None, None) => VmScenarios::Share(PartNumber::WHOLE),
    };
    let build = ScenarioBuild::Alone;
    let run = ScenarioRun { tree, runner, build, is_exhaustive: args.exhaustive };
    if args.list {
        scenarios.print(&run)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ScenarioResult { tally, skipped } = run_scenarios(&run, consent, &scenarios)?;
    for group in &skipped {
        println!("{group}");
    }
    println!("{tally}");
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Build the virtual machines that the scenarios need, and run them; needs root.
///
/// # Errors
/// A build fails, or the scenarios cannot be listed or run. A failed scenario is no error.
pub fn run_scenarios(
    run: &ScenarioRun<'_>,
    consent: InstallConsent,
    scenarios: &VmScenarios,
) -> Result<ScenarioResult> {
    let mut result = ScenarioResult::default();
    for os in scenarios.systems() {
        build(run.tree, consent, run.build, os)?;
        result.add(scenarios.run(run, consent, os)?);
    }
    result.skip(scenarios.of_other_systems(run)?);
    Ok(result)
}

/// Build the virtual machines of an operating system; needs root.
///
/// # Errors
/// A requirement is missing, or a stage of the build fails.
fn build(tree: &ProjectTree, consent: InstallConsent, scenarios: ScenarioBuild, os: GuestOs) -> Result<()> {
    prepare(tree, consent, scenarios)?;
    invocation::run(program(tree, "build").args(os.option()))
}

/// Compile the SELinux modules, and link them with the policies of Debian 12 and 13; needs root.
///
/// # Errors
/// A requirement is missing, or a module does not compile or link.
pub fn policy(tree: &ProjectTree, consent: InstallConsent, scenarios: ScenarioBuild) -> Result<()> {
    build_alone(tree, consent, scenarios, "policy")
}

/// Build the Debian tree with registry, skopeo and QEMU; needs root.
///
/// # Errors
/// A requirement is missing, or the packages cannot be had.
pub fn builder(tree: &ProjectTree, consent: InstallConsent, scenarios: ScenarioBuild) -> Result<()> {
    build_alone(tree, consent, scenarios, "builder")
}

/// Build the stages that need no executables of this project.
fn build_alone(
    tree: &ProjectTree,
    consent: InstallConsent,
    scenarios: ScenarioBuild,
    verb: &str,
) -> Result<()> {
    setup::ensure_vm_installed(consent)?;
    build_program(tree, scenarios)?;
    invocation::run(&mut command(tree, verb))
}

/// Build the executables for the guests, and the program that builds virtual machines.
fn prepare(tree: &ProjectTree, consent: InstallConsent, scenarios: ScenarioBuild) -> Result<()> {
    setup::ensure_vm_installed(consent)?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "building a virtual machine mounts file systems: run this as root"
    );
    if std::env::var_os(BINARIES).is_none() {
        tree.build_release()?;
    } else {
        let packages = ["--package", "osimage", "--package", "rpmostreed"];
        invocation::run(tree.cargo(&["build", "--release"]).args(packages))?;
    }
    build_program(tree, scenarios)
}

/// Build the program `vm` together with the scenarios, so that cargo builds it once.
fn build_program(tree: &ProjectTree, scenarios: ScenarioBuild) -> Result<()> {
    let targets = scenarios.targets(TestRunner::installed(tree));
    invocation::run(tree.cargo(&["test", "--no-run", "--quiet"]).args(SCOPE).args(targets))
}

/// Return a command that builds or boots virtual machines.
fn program(tree: &ProjectTree, verb: &str) -> Command {
    let release = tree.target().join("release");
    let mut command = command(tree, verb);
    // The release build of osimage: it checksums some hundred megabytes.
    command.arg("--osimage").arg(tree.executable("osimage"));
    command.arg("--binaries").arg(std::env::var_os(BINARIES).map_or(release, PathBuf::from));
    command
}

/// Return a command of the program `vm`.
fn command(tree: &ProjectTree, verb: &str) -> Command {
    let mut command = Command::new(tree.target().join("debug/vm"));
    command.arg(verb).envs([tree.vm_variable()]);
    command
}
