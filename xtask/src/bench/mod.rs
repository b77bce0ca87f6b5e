//! `cargo xtask bench`: what flameholder's work costs, beside a baseline of the same minute.
//!
//! Absolute times say nothing on a machine that others use as well; how two programs compare that take turns does.
//! So nothing here fails because it is slow: a missed budget is shown.

mod baseline;
mod contents;
mod dirty_pages;
mod document;
mod figures;
mod machine;
mod mounts;
mod neighbour;
mod pair;
mod peak_memory;
mod stopwatch;
mod strace;
mod table;
mod turns;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use tempfile::TempDir;

use crate::invocation;
use crate::workspace::Workspace;
use figures::{FIGURES, Findings};
use mounts::FileSystem;

pub use baseline::{BaselineArgs, run as run_baseline};

/// Where `--write` writes, from the workspace's root.
const PAGE: &str = "docs/development/benchmarks.md";
const PREFACE: &str = "\
# Benchmarks

Written by `cargo xtask bench --write`. Each figure stands beside a baseline of the same run: both sides are processes,
timed from start to end, which take turns on one file system. Times are medians. Only the ratios mean something
elsewhere.
";

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Measure one figure only.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(FIGURES.iter().map(|f| f.name)))]
    only: Option<String>,
    /// Measure on the file system of this directory instead of the build's.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// How many times each side has its turn.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the table to docs/development/benchmarks.md as well.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// What a figure is measured with.
#[derive(Debug)]
struct Bench<'w> {
    workspace: &'w Workspace,
    place: PathBuf,
    rounds: u32,
}

impl Bench<'_> {
    fn rounds(&self) -> u32 {
        self.rounds
    }

    /// A release executable.
    fn executable(&self, name: &str) -> Command {
        Command::new(self.workspace.executable(name))
    }

    /// A new directory on the file system that is measured.
    fn directory(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("flameholder-bench-")
            .tempdir_in(&self.place)
            .with_context(|| format!("making a directory in {}", self.place.display()))
    }
}

/// Measures and prints; the table goes to standard output, what is going on to standard error.
///
/// # Errors
/// Something cannot be built, run or written. A missed budget is none.
pub fn run(workspace: &Workspace, args: &BenchArgs) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the benchmarks apply configurations, whose files belong to root: run them as root"
    );
    let place = args.directory.clone().unwrap_or_else(|| workspace.target().to_owned());
    let file_system = FileSystem::of(&place)?;
    eprintln!("on {file_system}");
    if file_system.is_memory() {
        eprintln!(
            "warning: that is memory, where a flush costs nothing; --directory DIR names another place"
        );
    }
    workspace.build_release()?;
    // The baselines are to be as fast as they can be, too.
    invocation::run(&mut workspace.cargo(&["build", "--release", "--package", "xtask"]))?;
    let bench = Bench { workspace, place, rounds: args.rounds };
    let text = report(&measure(&bench, args.only.as_deref())?, &machine::description(&file_system)?);
    print!("{text}");
    if args.write { write_page(workspace, &text) } else { Ok(()) }
}

fn measure(bench: &Bench<'_>, only: Option<&str>) -> Result<Findings> {
    let mut all = Findings::default();
    for figure in FIGURES.iter().filter(|figure| only.is_none_or(|name| name == figure.name)) {
        eprintln!("{}", figure.name);
        let findings = (figure.measure)(bench).with_context(|| format!("measuring {}", figure.name))?;
        all.rows.extend(findings.rows);
        all.notes.extend(findings.notes.into_iter().inspect(|note| eprintln!("  {note}")));
    }
    Ok(all)
}

fn report(findings: &Findings, machine: &str) -> String {
    let notes: Vec<_> = findings.notes.iter().map(|note| format!("- {note}\n")).collect();
    format!("{machine}\n{}\n{}{}", table::render(&findings.rows), figures::BASELINES, notes.concat())
}

fn write_page(workspace: &Workspace, text: &str) -> Result<()> {
    let page: &Path = &workspace.root().join(PAGE);
    std::fs::write(page, format!("{PREFACE}\n{text}"))
        .with_context(|| format!("writing {}", page.display()))?;
    eprintln!("written: {PAGE}");
    Ok(())
}
