//! The command line: arguments, dispatch, exit codes. A verb's body is a call to the floors below.

mod activate;
mod adopt;
mod apply;
mod bind;
mod daemon;
mod error;
mod etc_diff;
mod firstboot;
mod input;
mod introduce;
mod journal_log;
mod os_backend;
mod paint;
mod plan;
mod plan_text;
mod progress;
mod reboot;
mod recover;
mod release;
mod render;
mod retry;
mod rollback;
mod running;
mod settle;
mod status;
mod stderr_log;
mod terminal;
mod text_diff;
mod verify;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::core::values::profile::Profile;

pub use error::CliError;

/// Makes an OSTree host what its rendered MachineConfig says: all of it or none of it.
#[derive(Debug, Parser)]
#[command(name = "flameholder", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what would change, why, and what it would disturb; changes nothing
    Plan(plan::PlanArgs),
    /// Make the host, a tree or a sysroot what a configuration says
    Apply(apply::ApplyArgs),
    /// Compare the disk with the record of what was applied
    Verify(verify::VerifyArgs),
    /// Show deployments and generations
    Status(status::StatusArgs),
    /// Show what an update will make of /etc: what it keeps, takes over, loses and refuses
    EtcDiff(etc_diff::EtcDiffArgs),
    /// Make what lies outside /etc match the generation that is in it
    Activate(activate::ActivateArgs),
    /// Complete the first boot that Ignition began; run by systemd before the workload starts
    Firstboot(firstboot::FirstbootArgs),
    /// Make the host what a source says, for as long as it lives; run by systemd
    Daemon(daemon::DaemonArgs),
    /// Do one thing for the daemon, which says what on standard input
    #[command(hide = true)]
    Work(work::WorkArgs),
    /// Finalize what is staged, bound to its configuration; run by systemd at shutdown
    Bind,
    /// Judge what booted: settle it once it is healthy, or go back; run by systemd in each boot
    Settle,
    /// Settle what was interrupted or is pending; safe at any time
    Recover(recover::RecoverArgs),
    /// Go back to the previous generation
    Rollback(rollback::RollbackArgs),
    /// Let a held target be applied again
    Retry,
    /// Take the host over from the machine-config-daemon, as it is
    Adopt(adopt::AdoptArgs),
    /// Give the host back to the machine-config-daemon, as it is
    Release,
    /// Give a daemon on the host the cluster's identity of this pod; run by the pod that installs it
    #[command(hide = true)]
    Introduce(introduce::IntroduceArgs),
    /// Merge MachineConfigs into a rendered one, as the cluster's controller does
    ///
    /// The content is what a cluster comes to. The name is not: its digits are a digest of our own, so that
    /// equal contents have equal names here.
    Render(render::RenderArgs),
}

/// What a command works on.
#[derive(Debug, Args)]
struct Place {
    /// A plain tree, without an operating system to change
    #[arg(long, value_name = "DIR", conflicts_with = "sysroot")]
    root: Option<PathBuf>,
    /// An OSTree sysroot that is not running
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

/// How a result is written to standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document, described in docs/schema
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ProfileName {
    /// The verdicts of the machine-config-daemon, exactly
    Mcd,
    /// The same, and also directories, links and append
    #[default]
    Native,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Mcd => Self::Mcd,
            ProfileName::Native => Self::Native,
        }
    }
}

/// A command that did what it was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing to add.
    Fine,
    /// Differences or deviations were found, and asked for.
    Differences,
    /// The target cannot be reached; the plan that says so was printed.
    Irreconcilable,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Fine => Self::SUCCESS,
            Verdict::Irreconcilable => Self::FAILURE,
            Verdict::Differences => Self::from(2),
        }
    }
}

/// Runs the command that the process was called with.
#[must_use]
pub fn run() -> ExitCode {
    // Whoever calls may have a narrower one: a directory would have it until its mode is set.
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.verb {
        Verb::Daemon(_) | Verb::Work(_) => journal_log::install(),
        _ => stderr_log::install(),
    }
    let result = match cli.verb {
        Verb::Plan(args) => plan::run(&args),
        Verb::Apply(args) => apply::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::EtcDiff(args) => etc_diff::run(&args),
        Verb::Activate(args) => activate::run(&args),
        Verb::Firstboot(args) => firstboot::run(&args),
        Verb::Daemon(args) => daemon::run(&args),
        Verb::Work(args) => work::run(&args),
        Verb::Bind => bind::run(),
        Verb::Retry => retry::run(),
        Verb::Settle => settle::run(),
        Verb::Recover(args) => recover::run(&args),
        Verb::Rollback(args) => rollback::run(&args),
        Verb::Adopt(args) => adopt::run(&args),
        Verb::Release => release::run(),
        Verb::Introduce(args) => introduce::run(&args),
        Verb::Render(args) => render::run(&args),
    };
    match result {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            terminal::say(&format!("error: {}", error.chain()));
            error.exit_code()
        }
    }
}

/// `--help` and `--version` are answers; anything else is wrong usage (`EX_USAGE`).
fn usage(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell when the terminal is gone.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS }
}
