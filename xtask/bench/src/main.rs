//! Benchmarks of the release executable: the cost of flameholder's work, each figure beside a baseline.
//!
//! An absolute time means nothing on a machine that other programs use as well; the ratio of two programs
//! that take turns does. So no figure fails because it is slow: the table shows the missed budget.

mod baseline;
mod dirty_pages;
mod figures;
mod images;
mod layout;
mod machine;
mod mounts;
mod neighbour;
mod peak_memory;
mod program;
mod stopwatch;
mod strace;
mod table;
mod trees;
mod turns;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use baseline::BaselineArgs;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use figures::{FIGURES, FigureResult};
use layout::BuildLayout;
use mounts::FileSystem;
use tempfile::TempDir;

/// The page that `--write` writes, relative to the workspace's root.
const PAGE: &str = "docs/development/benchmarks.md";
const PREFACE: &str = "\
# Benchmarks

Written by `cargo xtask bench --write`. Each figure stands beside a baseline of the same run: both sides are processes,
timed from start to end, which take turns on one file system. Times are medians. Only the ratios mean something
elsewhere.
";

/// Measure the release executable, each figure beside a baseline of the same run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct BenchCommand {
    #[command(subcommand)]
    baseline: Option<HiddenCommand>,
    #[command(flatten)]
    args: BenchArgs,
}

#[derive(Debug, Subcommand)]
enum HiddenCommand {
    /// Do the work of a baseline, as a process of its own.
    #[command(hide = true)]
    Baseline(BaselineArgs),
}

#[derive(Debug, Args)]
struct BenchArgs {
    /// Measure one figure only.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(FIGURES.iter().map(|f| f.name)))]
    only: Option<String>,
    /// Measure on the file system of this directory instead of the build's.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Run each side so many times.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the table to docs/development/benchmarks.md as well.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// The executables under test, the place and the number of rounds.
#[derive(Debug)]
struct BenchRun {
    layout: BuildLayout,
    place: PathBuf,
    rounds: u32,
}

impl BenchRun {
    fn rounds(&self) -> u32 {
        self.rounds
    }

    /// A command that runs a release executable.
    fn executable(&self, name: &str) -> Command {
        Command::new(self.layout.executable(name))
    }

    /// Create a directory on the file system under test.
    fn directory(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("flameholder-bench-")
            .tempdir_in(&self.place)
            .with_context(|| format!("creating a directory in {}", self.place.display()))
    }
}

fn main() -> ExitCode {
    let command = BenchCommand::parse();
    let result = match &command.baseline {
        Some(HiddenCommand::Baseline(args)) => baseline::run(args),
        None => run(&command.args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measure and print: the table to standard output, progress to standard error.
fn run(args: &BenchArgs) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the benchmarks apply configurations, whose files belong to root: run them as root"
    );
    let layout = BuildLayout::locate()?;
    let place = args.directory.clone().unwrap_or_else(|| layout.executables().to_owned());
    let file_system = FileSystem::of(&place)?;
    eprintln!("on {file_system}");
    if file_system.is_memory() {
        eprintln!(
            "warning: this file system is in memory, where a flush costs nothing; use --directory DIR to measure on another"
        );
    }
    let bench = BenchRun { layout, place, rounds: args.rounds };
    let text = report(&measure(&bench, args.only.as_deref())?, &machine::description(&file_system)?);
    print!("{text}");
    if args.write { write_page(&bench.layout, &text) } else { Ok(()) }
}

fn measure(bench: &BenchRun, only: Option<&str>) -> Result<FigureResult> {
    let mut all = FigureResult::default();
    for figure in FIGURES.iter().filter(|figure| only.is_none_or(|name| name == figure.name)) {
        eprintln!("{}", figure.name);
        let result = (figure.measure)(bench).with_context(|| format!("measuring {}", figure.name))?;
        all.rows.extend(result.rows);
        all.notes.extend(result.notes.into_iter().inspect(|note| eprintln!("  {note}")));
    }
    Ok(all)
}

fn report(result: &FigureResult, machine: &str) -> String {
    let notes: Vec<_> = result.notes.iter().map(|note| format!("- {note}\n")).collect();
    format!("{machine}\n{}\n{}{}", table::render(&result.rows), figures::BASELINES, notes.concat())
}

fn write_page(layout: &BuildLayout, text: &str) -> Result<()> {
    let page = layout.root().join(PAGE);
    std::fs::write(&page, format!("{PREFACE}\n{text}"))
        .with_context(|| format!("writing {}", page.display()))?;
    eprintln!("written: {PAGE}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baseline_is_a_command_beside_the_options() {
        let words = ["bench", "baseline", "hash", "--root", "tree", "--files", "3", "--edition", "a"];
        assert!(BenchCommand::try_parse_from(words).unwrap().baseline.is_some());
        let command = BenchCommand::try_parse_from(["bench", "--only", "size", "--rounds", "2"]).unwrap();
        assert!(command.baseline.is_none());
        assert_eq!((command.args.only.as_deref(), command.args.rounds), (Some("size"), 2));
        assert!(BenchCommand::try_parse_from(["bench", "--only", "size", "--write"]).is_err());
    }
}
