//! `flameholder history`: list the generations, updates, rollbacks and repairs of a host, with their causes.

use std::path::Path;

use clap::Args;

use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::terminal::print_styled;
use crate::cli::output::words::utc;
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat, TargetArgs, session};
use crate::core::history::history_log::HistoryLog;
use crate::core::history::update_phases::phases;
use crate::core::history::{HistoryEntry, HistoryEvent, duration};
use crate::host::Root;
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::history::HistoryDocument;
use crate::transaction::history;
use crate::transaction::update::sysroot;

/// Columns of the event's name.
const EVENT_WIDTH: usize = 15;

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    place: TargetArgs,
    /// Show this number of events, the newest; 0 for all
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 50)]
    lines: usize,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &HistoryArgs) -> Result<CommandOutcome, CliError> {
    let log = match (&args.place.root, &args.place.sysroot) {
        (Some(root), _) => history::load(&Root::open(root)?)?,
        (None, Some(sysroot)) => of_sysroot(sysroot)?,
        (None, None) => history::load(&session::running_host()?.root)?,
    };
    let most = if args.lines == 0 { usize::MAX } else { args.lines };
    match args.output.format {
        OutputFormat::Document(notation) => notation.print(&HistoryDocument::of(&log, most))?,
        OutputFormat::Text => print_styled(&render(&log, most))?,
    }
    Ok(CommandOutcome::Success)
}

/// Load the history in the `/var` of the default deployment.
fn of_sysroot(place: &Path) -> Result<HistoryLog, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, place, SysrootAccess::Read)?;
    Ok(sysroot::history(&mut session, place)?)
}

fn render(log: &HistoryLog, most: usize) -> StyledText {
    let mut text = StyledText::default();
    let from = log.entries.len().saturating_sub(most);
    if from > 0 {
        text.push(format!("{from} older events are not shown; `--lines 0` shows all\n"));
    }
    // References of images are long, and change less often than all else.
    let mut image = None;
    for (index, entry) in log.entries.iter().enumerate().skip(from) {
        push_entry(&mut text, entry, image);
        image = entry.note.image.as_deref().or(image);
        let phases = phases(log.entries.get(..=index).unwrap_or_default(), entry);
        if !phases.is_empty() {
            let phases = phases.iter().map(|phase| format!("{} {}", phase.name, duration(phase.seconds)));
            let phases: Vec<String> = phases.collect();
            text.push(format!("{:22}{:EVENT_WIDTH$} {}\n", "", "", phases.join(", ")));
        }
    }
    if log.entries.is_empty() {
        text.push("no events: the agent has not changed this host yet\n");
    }
    if log.damaged > 0 {
        text.push(format!("{} lines of the history cannot be read\n", log.damaged));
    }
    text
}

fn push_entry(text: &mut StyledText, entry: &HistoryEntry, image_above: Option<&str>) {
    let role = match entry.event {
        HistoryEvent::RolledBack | HistoryEvent::Blocked | HistoryEvent::FinalizeFailed => TextRole::Alarm,
        _ => TextRole::Heading,
    };
    text.push(format!("{:22}", utc(entry.time)));
    text.push_as(role, format!("{:EVENT_WIDTH$}", entry.event.as_str()));
    let user = entry.requester.user.as_ref().map(|user| format!(" of {user}")).unwrap_or_default();
    let subject = entry.description_below(image_above);
    text.push(format!(" {subject}  [{}{user}]\n", entry.requester.command));
}
