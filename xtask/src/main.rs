//! The project's own commands: `cargo xtask setup`, `demo`, `test`, `vm`, `ignition` and `bench`.
//!
//! It builds with a Rust toolchain and a C compiler alone, so that `setup` can install the rest.

mod boot_entry;
mod checks;
mod consent;
mod demo;
mod ignition;
mod invocation;
mod packages;
mod setup;
mod vm;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::checks::Extent;
use crate::consent::Consent;
use crate::vm::VmVerb;
use crate::workspace::Workspace;

/// Set-up, demo, tests, hosts to test on and benchmarks of Flameholder.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    verb: Verb,
    /// Install what is missing without asking.
    #[arg(long, short, global = true)]
    yes: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install the distribution packages that building and testing need.
    Setup,
    /// Show one update and its rollback in a sysroot made for the purpose.
    Demo {
        /// Keep the demo's directory and print where it is.
        #[arg(long)]
        keep: bool,
        /// Apply this rendered machine config instead of the demo's own.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Run every check that a change must pass, the quick ones first.
    Test {
        /// Stop after formatting, lints and the library's own tests.
        #[arg(long)]
        quick: bool,
        /// Try more crashes and power cuts than every change needs; takes hours.
        #[arg(long, conflicts_with = "quick")]
        exhaustive: bool,
    },
    /// Build hosts that boot in QEMU, and test on them.
    #[command(subcommand)]
    Vm(VmVerb),
    /// Print an Ignition config that installs the release build on a machine whose image does not have it.
    Ignition {
        /// Where the machine fetches the two executables from.
        #[arg(long, value_name = "URL")]
        from: String,
    },
    /// Measure the release executable, each figure beside a baseline of the same run.
    #[command(disable_help_flag = true)]
    Bench {
        /// Options of the benchmarks; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Xtask::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(xtask: Xtask) -> Result<ExitCode> {
    let consent = Consent::from_environment(xtask.yes);
    setup::ensure_installed(consent)?;
    match xtask.verb {
        Verb::Setup => Ok(ExitCode::SUCCESS),
        Verb::Demo { keep, config } => {
            let workspace = Workspace::locate()?;
            workspace.build_release()?;
            demo::show(&workspace, keep, config.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Test { quick, exhaustive } => {
            let extent = match (quick, exhaustive) {
                (true, _) => Extent::Quick,
                (_, true) => Extent::Exhaustive,
                _ => Extent::Full,
            };
            Ok(checks::run(&Workspace::locate()?, consent, extent))
        }
        Verb::Vm(verb) => vm::run(&Workspace::locate()?, consent, &verb),
        Verb::Ignition { from } => ignition::print(&Workspace::locate()?, &from).map(|()| ExitCode::SUCCESS),
        Verb::Bench { options } => bench(&Workspace::locate()?, &options).map(|()| ExitCode::SUCCESS),
    }
}

/// Runs the benchmarks, which are a release build as well: the baselines are part of their executable.
fn bench(workspace: &Workspace, options: &[OsString]) -> Result<()> {
    workspace.build_release()?;
    invocation::run(&mut workspace.cargo(&["build", "--release", "--package", "bench"]))?;
    invocation::run(std::process::Command::new(workspace.executable("bench")).args(options))
}
