//! `flameholder verify`: compare the disk with the record of the applied generation, and repair drift in a
//! tree.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Args;

use crate::cli::input::open_to_change;
use crate::cli::inspect::contents::ContentArgs;
use crate::cli::inspect::verify_text;
use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::terminal::print_styled;
use crate::cli::output::text_diff::ContentChange;
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat, TargetArgs, session};
use crate::core::values::limits;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{LockedRoot, Root, SystemdServices};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::verify::VerifyDocument;
use crate::transaction::plan::drift::{DriftReport, verify};
use crate::transaction::update::repair::{repair, repair_running};
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) place: TargetArgs,
    /// Repair drift of paths whose drift policy is `repair`, and report the rest
    #[arg(long, conflicts_with = "sysroot")]
    pub(crate) repair: bool,
    /// Show at which lines the contents of drifted files differ; with --show-contents, the lines
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    contents: ContentArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    wait: LockWaitArgs,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<CommandOutcome, CliError> {
    let show_contents = args.contents.are_shown()?;
    if args.diff && args.output.format != OutputFormat::Text {
        return Err(CliError::Usage(
            "--diff is for text; `-o json` has the differences without contents".to_owned(),
        ));
    }
    let (verified, root) = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => on_sysroot(sysroot)?,
        (Some(path), None) if args.repair => {
            let root = open_to_change(path)?;
            (repair(&args.wait.wait_for(|| LockedRoot::lock(&root))?)?, root)
        }
        (Some(path), None) => {
            let root = Root::open(path)?;
            (args.wait.wait_for(|| verify(&root, TreeScope::Everything))?, root)
        }
        (None, None) => on_running(args.repair, args.wait)?,
    };
    match args.output.format {
        OutputFormat::Document(notation) => {
            let DriftReport { record, findings, repaired, skew, .. } = &verified;
            notation.print(&VerifyDocument::of(record, findings, repaired, skew))?;
        }
        OutputFormat::Text => {
            let mut page = verify_text::render(&verified, &args.place);
            if args.diff || show_contents {
                differences(&root, &verified, show_contents, &mut page)?;
            }
            print_styled(&page)?;
        }
    }
    Ok(if verified.has_drift() { CommandOutcome::Differences } else { CommandOutcome::Success })
}

fn on_running(repairs: bool, wait: LockWaitArgs) -> Result<(DriftReport, Root), CliError> {
    let host = session::running_host()?;
    let mut session = session::open_running(SysrootAccess::Read)?;
    let verified = if repairs {
        repair_running(
            &mut *session,
            &wait.wait_for(|| host.lock())?,
            &SystemdServices::system(),
            &BTreeSet::new(),
        )?
    } else {
        wait.wait_for(|| sysroot::verify_running(&mut *session, &host))?
    };
    Ok((verified, host.root))
}

fn on_sysroot(sysroot: &Path) -> Result<(DriftReport, Root), CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, SysrootAccess::Read)?;
    Ok(sysroot::verify(&mut session, sysroot)?)
}

/// Add the differences between the recorded contents of drifted files and those of the tree at `root`.
fn differences(
    root: &Root,
    verified: &DriftReport,
    show_contents: bool,
    page: &mut StyledText,
) -> Result<(), CliError> {
    let mut changes = Vec::new();
    for (path, recorded) in verified.recorded_contents() {
        if let Some(found) = root.read(path, limits::INFLATED_BYTES)? {
            changes.push((path, ContentChange::new(recorded, &found)));
        }
    }
    if changes.is_empty() {
        page.push("no contents differ\n");
        return Ok(());
    }
    page.push("\n").push_as(TextRole::Heading, "Contents: - as recorded, + as on the disk").push("\n");
    for (path, change) in changes {
        change.write(path, show_contents, page);
    }
    Ok(())
}
