//! The command line: arguments, dispatch, exit codes. A verb's body is a call to the floors below.

mod artifact;
mod change;
mod desired_args;
mod error;
mod host_status;
mod image_agent;
mod input;
mod inspect;
mod lock_wait;
mod manual;
mod messages;
mod os_backend;
mod output;
mod server_access;
mod session;
mod systemd;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum, ValueHint};
pub use error::CliError;
use inspect::version::VersionArgs;
pub use manual::command_list::GROUPS;
pub use manual::command_page::{CommandGroup, CommandPage};
use manual::help;
use messages::MessageArgs;
use output::document::{OutputArgs, OutputFormat};
use output::{journal_log, stderr_log, terminal};

use crate::core::values::paths::CURRENT_CONFIG;
use crate::core::values::profile::Profile;
use crate::host::interrupt_signals::InterruptSignals;
use crate::report::error::ErrorDocument;

/// Makes an OSTree host match its rendered MachineConfig: all of it or none of it
#[derive(Debug, Parser)]
#[command(name = "flameholder", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    messages: MessageArgs,
    #[command(subcommand)]
    command: Command,
}

/// Hidden commands are those that systemd, the daemon or a pod calls.
#[derive(Debug, Subcommand)]
enum Command {
    /// Show what would change, why, and what it would disrupt; changes nothing
    Plan(inspect::plan::PlanArgs),
    /// Make a host, a tree or a sysroot match a configuration
    Apply(change::apply::ApplyArgs),
    /// Show deployments, generations and the state of the daemon
    Status(inspect::status::StatusArgs),
    /// Compare the disk with the record of the applied generation; repair drift
    Verify(inspect::verify::VerifyArgs),
    /// Discard the staged deployment; the next reboot boots the current one again
    Unstage(change::unstage::UnstageArgs),
    /// Go back to the previous generation
    Rollback(change::rollback::RollbackArgs),
    /// Release the blocked target, which `status` names, so that it may be applied again
    Retry(change::ChangeArgs),
    /// Undo or complete an interrupted change; safe at any time
    Recover(change::recover::RecoverArgs),
    /// List what happened to this host and why: generations, updates, rollbacks, repairs
    History(inspect::history::HistoryArgs),
    /// Show the changes of /etc that an update keeps, takes from the image, loses or refuses
    EtcDiff(inspect::etc_diff::EtcDiffArgs),
    /// Show the nodes of a cluster: what each does and waits for, blocked targets, slots, progress
    ///
    /// Works from any workstation with a kubeconfig, with the machine-config-operator and without it.
    Fleet(inspect::fleet::FleetArgs),
    /// Merge MachineConfigs into a rendered one, as the machine-config-controller does
    ///
    /// The content is the controller's. The name is not: its digits are a digest of the content alone, so
    /// that equal contents have equal names.
    Render(inspect::render::RenderArgs),
    /// Print the JSON schema of a document that `-o json` prints
    Schema(inspect::schema::SchemaArgs),
    /// Print the versions of the agent, of its worker and of libostree
    Version(inspect::version::VersionArgs),
    /// Keep the host at the config that a cluster, a directory or a server desires
    ///
    /// An option without a value here or in its environment variable is taken from the settings in
    /// /etc/flameholder/config.d, else it has its default.
    Daemon(systemd::daemon::DaemonArgs),
    /// Take a node over from the machine-config-daemon, as it is
    Adopt(change::adopt::AdoptArgs),
    /// Give a node back to the machine-config-daemon, as it is
    Release(change::ChangeArgs),
    /// Early in boot: put the generation's files outside /etc in place
    #[command(hide = true)]
    Activate(systemd::activate::ActivateArgs),
    /// At shutdown: finalize the staged deployment together with its configuration
    #[command(hide = true)]
    Finalize,
    /// After boot: run the boot check, then confirm the generation or roll it back
    #[command(hide = true)]
    ConfirmBoot,
    /// Before kubelet starts for the first time: complete what Ignition began
    #[command(hide = true)]
    Firstboot(systemd::firstboot::FirstbootArgs),
    /// For the daemon: do one job on the host, read from standard input
    #[command(hide = true)]
    Work(systemd::work::WorkArgs),
    /// In a pod: lend the token of the pod's service account to the daemon on the host
    #[command(hide = true)]
    Introduce(systemd::introduce::IntroduceArgs),
}

/// Target of a command; without either option, the running host.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Work on a plain directory tree, which has no operating system to change, instead of the running host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "sysroot")]
    pub(crate) root: Option<PathBuf>,
    /// Work on an OSTree sysroot that is not booted, instead of the running host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) sysroot: Option<PathBuf>,
}

impl TargetArgs {
    /// Spell the option that names the target to another command, behind a space; empty for the running host.
    fn as_option(&self) -> String {
        let words = self.as_options();
        let quoted = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default();
        if quoted.is_empty() { quoted } else { format!(" {quoted}") }
    }

    /// Spell the file with the config that is applied to the target; a placeholder where that is within a deployment.
    fn applied_config(&self) -> String {
        match (&self.root, &self.sysroot) {
            (Some(root), _) => {
                let path = root.join(CURRENT_CONFIG.trim_start_matches('/')).display().to_string();
                shlex::try_quote(&path).map_or_else(|_| path.clone(), std::borrow::Cow::into_owned)
            }
            (None, Some(_)) => "FILE".to_owned(),
            (None, None) => CURRENT_CONFIG.to_owned(),
        }
    }

    /// Return the option that names the target to another command; none for the running host.
    fn as_options(&self) -> Vec<String> {
        let named = [("--root", &self.root), ("--sysroot", &self.sysroot)];
        let given = named.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)));
        given.flat_map(|(option, path)| [option.to_owned(), path.display().to_string()]).collect()
    }
}

impl std::fmt::Display for TargetArgs {
    /// Beginning of an error about the target; empty for the running host.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.root, &self.sysroot) {
            (Some(root), _) => write!(f, "in the tree {}: ", root.display()),
            (None, Some(sysroot)) => write!(f, "in the sysroot {}: ", sysroot.display()),
            (None, None) => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// Accept exactly the changes that the machine-config-daemon accepts
    Mcd,
    /// Accept those of `mcd`, and also directories, links and appended contents
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

/// Outcome of a command that did not fail, as its exit code reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Success,
    /// Found drift, or differences under `--exit-code`.
    Differences,
    /// Printed a plan that cannot be applied.
    Irreconcilable,
    /// Printed the status of a host that does not get as desired by itself.
    Unsettled,
    /// Printed the status of a host that is not as desired yet.
    UnderWay,
}

impl From<CommandOutcome> for ExitCode {
    fn from(verdict: CommandOutcome) -> Self {
        match verdict {
            CommandOutcome::Success => Self::SUCCESS,
            CommandOutcome::Irreconcilable | CommandOutcome::Unsettled => Self::FAILURE,
            CommandOutcome::UnderWay => Self::from(error::TRY_AGAIN),
            CommandOutcome::Differences => Self::from(2),
        }
    }
}

/// Return the command line, from which the manual pages and shell completions are written.
#[must_use]
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Parse the process's arguments, run the command and return its exit code.
#[must_use]
pub fn run() -> ExitCode {
    // Directories are created first and get their own mode later: a caller's stricter umask would keep other
    // users out until then.
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    // Before the arguments are parsed: the image's agent may be newer and know others.
    image_agent::give_way_if_adopted();
    let mut parser = help::with_help(Cli::command());
    let cli = match parser.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => match matches.subcommand() {
            Some((help::HELP, asked)) => return help::print(parser, asked),
            _ => Cli::from_arg_matches(&matches),
        },
        // The versions of worker and libostree are known only at run time.
        Err(error) if error.kind() == ErrorKind::DisplayVersion => {
            let command = Command::Version(VersionArgs::default());
            Ok(Cli { messages: MessageArgs::default(), command })
        }
        Err(error) => Err(error),
    };
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let least = cli.messages.least();
    cli.messages.choose_colors();
    match cli.command {
        Command::Daemon(_) | Command::Work(_) => journal_log::install(least),
        _ => stderr_log::install(least),
    }
    let place = cli.command.place().map(TargetArgs::to_string);
    let output = cli.command.output();
    let publishes = cli.command.publishes();
    let done = dispatch(cli.command);
    if publishes {
        host_status::publish();
    }
    match done {
        Ok(verdict) => verdict.into(),
        // The reader has seen enough, as `head` has.
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Paths in errors of the host are below the root of the tree.
            let place = place.filter(|_| matches!(error, CliError::Transaction(_))).unwrap_or_default();
            let message = format!("{place}{}", error.chain());
            terminal::error(&message);
            // A status whose settings cannot be used is printed before the failure.
            if let OutputFormat::Document(notation) = output
                && !terminal::has_result()
            {
                // The exit code tells of the failure also where standard output is closed.
                drop(notation.print(&ErrorDocument::of(error.code(), message, error.refusals())));
            }
            ExitCode::from(error.code())
        }
    }
}

impl Command {
    /// Return the target of a command that has options for it.
    fn place(&self) -> Option<&TargetArgs> {
        match self {
            Self::Plan(args) => Some(&args.place),
            Self::Apply(args) => Some(&args.place),
            Self::Status(args) => Some(&args.place),
            Self::Verify(args) => Some(&args.place),
            Self::Recover(args) => Some(&args.place),
            _ => None,
        }
    }

    /// Return the notation of the command's result.
    fn output(&self) -> OutputFormat {
        match self {
            Self::Plan(args) => args.output.format,
            Self::Apply(args) => args.change.output.format,
            Self::Status(args) => args.output.format,
            Self::Verify(args) => args.output.format,
            Self::Unstage(args) => args.change.output.format,
            Self::Rollback(args) => args.change.output.format,
            Self::Retry(args) | Self::Release(args) => args.output.format,
            Self::Recover(args) => args.change.output.format,
            Self::Fleet(args) => args.output.format,
            Self::History(args) => args.output.format,
            Self::EtcDiff(args) => args.output.format,
            Self::Render(args) => args.output.map_or(OutputFormat::Text, OutputFormat::Document),
            Self::Version(args) => args.output.format,
            Self::Adopt(args) => args.change.output.format,
            // A schema is JSON by itself.
            Self::Schema(_)
            | Self::Daemon(_)
            | Self::Activate(_)
            | Self::Finalize
            | Self::ConfirmBoot
            | Self::Firstboot(_)
            | Self::Work(_)
            | Self::Introduce(_) => OutputFormat::Text,
        }
    }

    /// True if the command can change the status of the running host.
    fn publishes(&self) -> bool {
        let is_running = self.place().is_none_or(|place| place.root.is_none() && place.sysroot.is_none());
        let can_change = self.changes() || matches!(self, Self::Retry(_) | Self::ConfirmBoot | Self::Work(_));
        is_running && can_change
    }

    /// True if an interruption can leave something behind.
    fn changes(&self) -> bool {
        match self {
            Self::Verify(args) => args.repair,
            Self::Apply(_)
            | Self::Unstage(_)
            | Self::Rollback(_)
            | Self::Recover(_)
            | Self::Adopt(_)
            | Self::Release(_) => true,
            _ => false,
        }
    }
}

/// Tell who interrupts the command at a terminal what becomes of the change.
fn announce_interruption(place: Option<&TargetArgs>) {
    let option = place.map(TargetArgs::as_option).unwrap_or_default();
    InterruptSignals::install().announce(move || {
        // The terminal shows `^C`, perhaps behind a line of progress.
        terminal::say("");
        terminal::say(&format!(
            "interrupted: `flameholder recover{option}` undoes or completes a change that had begun, as the next one \
            does; `flameholder status{option}` shows what is there"
        ));
    });
}

fn dispatch(command: Command) -> Result<CommandOutcome, CliError> {
    if command.changes() && std::io::stderr().is_terminal() {
        announce_interruption(command.place());
    }
    match command {
        Command::Plan(args) => inspect::plan::run(&args),
        Command::Apply(args) => change::apply::run(&args),
        Command::Status(args) => inspect::status::run(&args),
        Command::Verify(args) => inspect::verify::run(&args),
        Command::Unstage(args) => change::unstage::run(&args),
        Command::Rollback(args) => change::rollback::run(&args),
        Command::Retry(args) => change::retry::run(&args),
        Command::Recover(args) => change::recover::run(&args),
        Command::Fleet(args) => inspect::fleet::run(&args),
        Command::History(args) => inspect::history::run(&args),
        Command::EtcDiff(args) => inspect::etc_diff::run(&args),
        Command::Render(args) => inspect::render::run(&args),
        Command::Schema(args) => inspect::schema::run(&args),
        Command::Version(args) => inspect::version::run(&args),
        Command::Daemon(args) => systemd::daemon::run(&args),
        Command::Adopt(args) => change::adopt::run(&args),
        Command::Release(args) => change::release::run(&args),
        Command::Activate(args) => systemd::activate::run(&args),
        Command::Finalize => systemd::finalize::run(),
        Command::ConfirmBoot => systemd::confirm_boot::run(),
        Command::Firstboot(args) => systemd::firstboot::run(&args),
        Command::Work(args) => systemd::work::run(&args),
        Command::Introduce(args) => systemd::introduce::run(&args),
    }
}

/// Print clap's message: exit 0 for `--help` and `--version`, 64 (`EX_USAGE`) for a wrong command line.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed terminal leaves no place to report this failure to.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS }
}
