//! The project's own commands: `cargo xtask setup`, `demo`, `test`, `vm`, `install`, `package`, `ignition`, `man`, `book`,
//! `release`, `bench` and `scale`.
//!
//! They build with a Rust toolchain and a C compiler alone, so that `setup` can install the other
//! requirements.

mod book;
mod boot_entry;
mod checks;
mod commit;
mod consent;
mod demo;
mod folder;
mod fuzz;
mod ignition;
mod install;
mod invocation;
mod manual;
mod package;
mod packages;
mod part_number;
mod project_tree;
mod release;
mod setup;
mod testing;
mod vm;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::book::BookArgs;
use crate::checks::TestExtent;
use crate::commit::TestedCommit;
use crate::consent::InstallConsent;
use crate::fuzz::FuzzArgs;
use crate::ignition::FileSource;
use crate::install::InstallArgs;
use crate::package::PackageArgs;
use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;
use crate::release::ReleaseArgs;
use crate::vm::VmCommand;

/// Set-up, demo, tests, virtual machines and benchmarks of Flameholder.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct XtaskCommand {
    #[command(subcommand)]
    command: ProjectCommand,
    /// Install missing requirements without a question.
    #[arg(long, short, global = true)]
    yes: bool,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// Install the distribution packages that building and testing need.
    Setup,
    /// Demonstrate one update and its rollback in a temporary sysroot.
    Demo {
        /// Keep the demo's directory and print its path.
        #[arg(long)]
        keep: bool,
        /// Apply this rendered machine config instead of the demo's own.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Play another story on a booted host in a virtual machine: an update, a broken one, and the automatic rollback.
        #[arg(long, conflicts_with_all = ["keep", "config"])]
        vm: bool,
    },
    /// Run every check that a change must pass, the quick ones first.
    Test(TestArgs),
    /// Build virtual machines, boot one, and run the tests that need one.
    #[command(subcommand)]
    Vm(VmCommand),
    /// Install the release build with everything that belongs to it below a directory, from which packages and images are
    /// made.
    Install(InstallArgs),
    /// Build packages for Debian and Fedora, check sums and a bill of materials.
    Package(PackageArgs),
    /// Print an Ignition config that installs the release build, or a system extension, on an OS image without it.
    Ignition {
        /// The URL of the directory from which the machine downloads the executables or the extension.
        #[arg(long, value_name = "URL", required_unless_present = "inline")]
        from: Option<String>,
        /// Put the executables or the extension into the config, for a machine without network: some ten megabytes.
        #[arg(long, conflicts_with = "from")]
        inline: bool,
        /// Install this image of a system extension, which `package` makes, instead of the executables; its name at the
        /// URL is that of the file.
        #[arg(long, value_name = "FILE")]
        extension: Option<PathBuf>,
    },
    /// Write the manual pages and shell completions from the command line.
    Man,
    /// Make a book of the documentation.
    Book(BookArgs),
    /// Walk the checklist of a release, build its packages and tag it.
    Release(ReleaseArgs),
    /// Call the parsers of outside input with generated inputs.
    Fuzz(FuzzArgs),
    /// Measure the release executable, each figure beside a baseline of the same run.
    #[command(disable_help_flag = true)]
    Bench {
        /// Options of the benchmarks; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    /// Run fleets of simulated agents against a real API server, and print what they cost it.
    #[command(disable_help_flag = true)]
    Scale {
        /// Options of the trial; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Run formatting, house rules, lints and the libraries' own tests only.
    #[arg(long)]
    quick: bool,
    /// Run also the tests, crashes and power cuts that take hours.
    #[arg(long, conflicts_with = "quick")]
    exhaustive: bool,
    /// Run one part of the exhaustive tests, such as 2/8.
    #[arg(long, value_name = "K/N", requires = "exhaustive")]
    part: Option<PartNumber>,
    /// Run this share of the long tests and scenarios instead of the commit's; 1/1 runs all of them.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["quick", "exhaustive"])]
    share: Option<PartNumber>,
    /// Print the results of the exhaustive parts that ran on this commit, and run no test.
    #[arg(long, requires = "exhaustive", conflicts_with = "part")]
    report: bool,
}

impl TestArgs {
    fn extent(&self, tree: &ProjectTree) -> TestExtent {
        match (self.quick, self.exhaustive) {
            (true, _) => TestExtent::Quick,
            (_, true) => TestExtent::Exhaustive(self.part.unwrap_or(PartNumber::WHOLE)),
            _ => TestExtent::Full(self.share.unwrap_or_else(|| TestedCommit::chosen_share(tree))),
        }
    }
}

fn main() -> ExitCode {
    match run(XtaskCommand::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(xtask: XtaskCommand) -> Result<ExitCode> {
    let tree = ProjectTree::locate()?;
    if let ProjectCommand::Test(TestArgs { report: true, .. }) = xtask.command {
        return checks::print_exhaustive_report(&tree);
    }
    let consent = InstallConsent::from_environment(xtask.yes);
    // Installations and packages need none of the requirements of the tests.
    if !matches!(
        xtask.command,
        ProjectCommand::Install(_) | ProjectCommand::Package(_) | ProjectCommand::Book(_)
    ) {
        setup::ensure_installed(consent)?;
    }
    match xtask.command {
        ProjectCommand::Setup => Ok(ExitCode::SUCCESS),
        ProjectCommand::Demo { vm: true, .. } => vm::demo(&tree, consent).map(|()| ExitCode::SUCCESS),
        ProjectCommand::Demo { keep, config, vm: false } => {
            tree.build_release()?;
            demo::show(&tree, keep, config.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        ProjectCommand::Test(args) => checks::run(&tree, consent, args.extent(&tree)),
        ProjectCommand::Fuzz(args) => fuzz::run(&tree, consent, &args),
        ProjectCommand::Vm(command) => vm::run(&tree, consent, &command),
        ProjectCommand::Install(args) => install::run(&tree, consent, &args).map(|()| ExitCode::SUCCESS),
        ProjectCommand::Package(args) => package::run(&tree, consent, &args).map(|()| ExitCode::SUCCESS),
        ProjectCommand::Ignition { from, inline: _, extension } => {
            let source = from.map_or(FileSource::Config, FileSource::Url);
            ignition::print(&tree, &source, extension.as_deref()).map(|()| ExitCode::SUCCESS)
        }
        ProjectCommand::Man => {
            invocation::run(&mut manual::program(&tree)?)?;
            Ok(ExitCode::SUCCESS)
        }
        ProjectCommand::Release(args) => release::run(&tree, consent, &args),
        ProjectCommand::Book(args) => book::run(&tree, consent, &args).map(|()| ExitCode::SUCCESS),
        ProjectCommand::Bench { options } => bench(&tree, &options).map(|()| ExitCode::SUCCESS),
        ProjectCommand::Scale { options } => scale(&tree, &options).map(|()| ExitCode::SUCCESS),
    }
}

/// Run the benchmarks. They need a release build: the baselines are part of their executable.
fn bench(tree: &ProjectTree, options: &[OsString]) -> Result<()> {
    tree.build_release()?;
    invocation::run(&mut tree.cargo(&["build", "--release", "--package", "bench"]))?;
    invocation::run(std::process::Command::new(tree.executable("bench")).args(options))
}

/// Run the trial of scale. What it counts does not depend on the speed of a build.
fn scale(tree: &ProjectTree, options: &[OsString]) -> Result<()> {
    invocation::run(tree.cargo(&["run", "--profile", "scale", "--package", "scale", "--"]).args(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<XtaskCommand, clap::Error> {
        XtaskCommand::try_parse_from([&["cargo xtask"], words].concat())
    }

    #[test]
    fn parts_and_the_report_need_exhaustive() {
        assert!(parse(&["test", "--exhaustive", "--part", "2/8"]).is_ok());
        assert!(parse(&["test", "--exhaustive", "--report"]).is_ok());
        for words in
            [&["test", "--part", "2/8"][..], &["test", "--report"], &["test", "--quick", "--exhaustive"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn options_of_the_benchmarks_are_passed_on() {
        for words in [&["--only", "size"][..], &["--help"], &["--rounds", "2", "--write"]] {
            let command = parse(&[&["bench"], words].concat()).unwrap().command;
            let ProjectCommand::Bench { options } = command else { panic!("{command:?}") };
            assert_eq!(options, words);
        }
    }
}
