//! `cargo xtask fuzz`: calls the parsers of outside input with generated inputs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::consent::InstallConsent;
use crate::invocation;
use crate::project_tree::ProjectTree;

/// Seconds after which one input counts as one that hangs.
const LONGEST_INPUT: u32 = 20;
/// Memory in MiB above which an input counts as one that exhausts it: 64 MiB of contents are decoded at most.
const MOST_MEMORY: u32 = 1024;
/// Bytes of generated inputs. Longer ones are slower, and reach no other place.
const LONGEST: u32 = 16 * 1024;

/// Options of `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub struct FuzzArgs {
    /// Fuzz this target alone: the name of a corpus in tests/inputs.
    target: Option<String>,
    /// Time for each target.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    seconds: u32,
}

/// Fuzz the target of `args`, or each after the other. Inputs that reach new places are kept in the target directory.
///
/// # Errors
/// cargo-fuzz cannot be installed, there is no such target, or an input breaks a promise: it is in `fuzz/artifacts`, and
/// belongs into the corpus.
pub fn run(tree: &ProjectTree, consent: InstallConsent, args: &FuzzArgs) -> Result<ExitCode> {
    ensure_installed(tree, consent)?;
    let known = targets(tree)?;
    let chosen = args.target.as_ref().map_or_else(|| known.clone(), |target| vec![target.clone()]);
    for target in chosen {
        ensure!(known.contains(&target), "no target is called {target}; there are {}", known.join(", "));
        fuzz(tree, &target, args.seconds)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fuzz one target for this time.
///
/// # Errors
/// As for [`run`].
pub fn fuzz(tree: &ProjectTree, target: &str, seconds: u32) -> Result<()> {
    let kept = tree.target().join("fuzz-corpus").join(target);
    fs::create_dir_all(&kept).with_context(|| format!("creating {}", kept.display()))?;
    println!("fuzzing {target} for {seconds} s");
    let mut command =
        tree.cargo(&["fuzz", "run", "--fuzz-dir", "fuzz", "--sanitizer", "none", "--target-dir"]);
    command.arg(tree.target().join("fuzz")).arg(target).arg(kept).arg(corpora(tree).join(target)).arg("--");
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-timeout={LONGEST_INPUT}"),
        format!("-rss_limit_mb={MOST_MEMORY}"),
        format!("-max_len={LONGEST}"),
        "-print_final_stats=1".to_owned(),
    ]);
    invocation::run(on_stable(&mut command))
}

/// Install cargo-fuzz if it is missing, after consent.
///
/// # Errors
/// The installation fails, or the consent is missing.
pub fn ensure_installed(tree: &ProjectTree, consent: InstallConsent) -> Result<()> {
    if tree.has_subcommand("fuzz") {
        return Ok(());
    }
    invocation::run(&mut consent.to_subcommand(tree, "fuzz")?)
}

/// List the targets, by name.
///
/// # Errors
/// The corpora cannot be listed.
pub fn targets(tree: &ProjectTree) -> Result<Vec<String>> {
    let corpora = corpora(tree);
    let entries = fs::read_dir(&corpora).with_context(|| format!("listing {}", corpora.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

fn corpora(tree: &ProjectTree) -> PathBuf {
    tree.root().join("tests/inputs/corpus")
}

/// The instrumentation is an unstable option of the compiler, which the stable one takes with this variable.
fn on_stable(command: &mut Command) -> &mut Command {
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_INCREMENTAL", "0")
}
