//! `flameholder status`: show deployments, generations, the pending and the blocked target, boot check and
//! daemon.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::Timestamp;

use crate::cli::host_status::{of_running, of_sysroot, of_tree, published};
use crate::cli::inspect::contents::ContentArgs;
use crate::cli::inspect::{status_text, status_watch};
use crate::cli::output::terminal::print_styled;
use crate::cli::output::words::parse_duration;
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat, TargetArgs, session};
use crate::host::Root;
use crate::host::facts::boot;
use crate::report::status::{ConditionItem, ConditionOutcome, StatusDocument};
use crate::transaction::state::settings;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) place: TargetArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Print the status again whenever the phase of the daemon or the boot check changes
    #[arg(long, conflicts_with_all = ["root", "sysroot"])]
    watch: bool,
    /// Exit with 0 if the host is as desired, with 1 if it does not get there by itself, and with 75 in between
    #[arg(long, conflicts_with_all = ["root", "sysroot", "watch"])]
    exit_code: bool,
    /// Wait until the state is this one, such as `Done` (see flameholder-phases(7)); exit with 1 if it is or becomes Blocked
    /// instead
    #[arg(
        long,
        value_name = "STATE",
        value_parser = PossibleValuesParser::new(ConditionItem::names()),
        ignore_case = true,
        hide_possible_values = true,
        conflicts_with_all = ["root", "sysroot", "watch", "exit_code"]
    )]
    wait: Option<String>,
    /// Exit with 75 if the state is not reached within this time, such as `30m`; default: no limit
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    contents: ContentArgs,
}

pub(crate) fn run(args: &StatusArgs) -> Result<CommandOutcome, CliError> {
    let show_contents = args.contents.are_shown()?;
    if args.watch {
        return status_watch::watch(args.output.format, show_contents);
    }
    if let Some(state) = &args.wait {
        let document = status_watch::wait(state, args.timeout)?;
        let outcome = status_watch::outcome(state, document.condition.as_ref());
        print(document, args.output.format, show_contents)?;
        return Ok(outcome);
    }
    let document = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => of_sysroot(sysroot)?,
        (Some(root), None) => of_tree(root)?,
        (None, None) if is_for_others() => published()?,
        (None, None) => of_running(&session::running_host()?)?,
    };
    let outcome = document.condition.as_ref().map(|condition| condition.outcome);
    let is_published = document.published.is_some();
    print(document, args.output.format, show_contents)?;
    // The status is true without the settings, but what follows from them is not.
    if args.place.sysroot.is_none() && !is_published {
        let path = args.place.root.as_deref().unwrap_or(Path::new("/"));
        settings::settings(&Root::open(path)?)?;
    }
    Ok(match outcome.filter(|_| args.exit_code) {
        None | Some(ConditionOutcome::Settled) => CommandOutcome::Success,
        Some(ConditionOutcome::UnderWay) => CommandOutcome::UnderWay,
        Some(ConditionOutcome::Failed) => CommandOutcome::Unsettled,
    })
}

pub(crate) fn print(
    mut document: StatusDocument,
    output: OutputFormat,
    show_contents: bool,
) -> Result<(), CliError> {
    if !show_contents || output != OutputFormat::Text {
        document.leave_out_contents();
    }
    match output {
        OutputFormat::Document(notation) => notation.print(&document),
        OutputFormat::Text => print_styled(&status_text::render(&document, Timestamp::now())),
    }
}

/// Return true where the reader may not read the running host.
fn is_for_others() -> bool {
    boot::is_booted_ostree(Path::new("/")) && !rustix::process::geteuid().is_root()
}
