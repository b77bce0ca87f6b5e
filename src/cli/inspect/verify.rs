//! `flameholder verify`: compare the disk with the record of the applied generation, and repair drift in a
//! tree.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Args;

use crate::cli::input::{open_to_change, print_json};
use crate::cli::inspect::contents::ContentArgs;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::terminal::print_styled;
use crate::cli::output::text_diff::ContentChange;
use crate::cli::{CliError, CommandOutcome, OutputFormat, TargetArgs, session};
use crate::core::config::settings::DriftPolicy;
use crate::core::plan::drift::{Drift, DriftFinding};
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
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
    /// Show how much the contents of drifted files differ; with --show-contents, the lines that differ
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    contents: ContentArgs,
    /// Notation of the result
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: OutputFormat,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<CommandOutcome, CliError> {
    let show_contents = args.contents.are_shown()?;
    if args.diff && args.output == OutputFormat::Json {
        return Err(CliError::Usage(
            "--diff is for text; `-o json` has the differences without contents".to_owned(),
        ));
    }
    let (verified, root) = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => on_sysroot(sysroot)?,
        (Some(path), None) if args.repair => {
            let root = open_to_change(path)?;
            (repair(&LockedRoot::lock(&root)?)?, root)
        }
        (Some(path), None) => {
            let root = Root::open(path)?;
            (verify(&root, TreeScope::Everything)?, root)
        }
        (None, None) => on_running(args.repair)?,
    };
    match args.output {
        OutputFormat::Json => {
            let DriftReport { record, findings, repaired, skew, .. } = &verified;
            print_json(&VerifyDocument::of(record, findings, repaired, skew))?;
        }
        OutputFormat::Text => {
            let mut page = StyledText::default();
            page.push(render(&verified));
            if args.diff || show_contents {
                differences(&root, &verified, show_contents, &mut page)?;
            }
            print_styled(&page)?;
        }
    }
    Ok(if verified.has_drift() { CommandOutcome::Differences } else { CommandOutcome::Success })
}

fn on_running(repairs: bool) -> Result<(DriftReport, Root), CliError> {
    let host = session::running_host()?;
    let mut session = session::open_running(SysrootAccess::Read)?;
    let verified = if repairs {
        repair_running(&mut *session, &host.lock()?, &SystemdServices::system(), &BTreeSet::new())?
    } else {
        sysroot::verify_running(&mut *session, &host)?
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
        if show_contents {
            change.write(path, page);
        } else {
            page.push(format!("  {path}  {}\n", change.summary()));
        }
    }
    Ok(())
}

fn render(verified: &DriftReport) -> String {
    let record = &verified.record;
    let (config, generation) = (&record.config, &record.generation);
    let mut text = String::new();
    if !verified.repaired.is_empty() {
        text.push_str(&format!("repaired, {}:\n", counted(verified.repaired.len())));
        text.extend(verified.repaired.iter().map(|drift| line(drift, "")));
    }
    let (counting, accepted): (Vec<&DriftFinding>, Vec<&DriftFinding>) =
        verified.findings.iter().partition(|found| found.counts());
    if counting.is_empty() {
        let but = if accepted.is_empty() { "" } else { ", apart from accepted paths" };
        text.push_str(&format!("no drift from {config} (generation {generation}){but}\n"));
    } else {
        let count = counted(counting.len());
        text.push_str(&format!("{count} from {config} (generation {generation}):\n"));
    }
    for found in &counting {
        text.push_str(&line(&found.drift, &format!("  [{}]", found.policy.as_str())));
        if let Some(obstacle) = &found.obstacle {
            text.push_str(&format!("    not repaired: {obstacle}\n"));
        }
    }
    for (policy, heading) in [
        (DriftPolicy::Merge, "local changes, which the next update keeps"),
        (DriftPolicy::Ignore, "ignored by policy"),
    ] {
        let accepted: Vec<&&DriftFinding> = accepted.iter().filter(|found| found.policy == policy).collect();
        if !accepted.is_empty() {
            text.push_str(&format!("{heading}, {}:\n", counted(accepted.len())));
            text.extend(accepted.iter().map(|found| line(&found.drift, "")));
        }
    }
    text.push_str(&skew_line(&verified.skew));
    if !counting.is_empty() {
        text.push_str("`flameholder apply` with the same config repairs them, except modes, owners and labels of directories\n");
    }
    text
}

/// Describe the kernel arguments that take effect with the next full reboot; empty without any.
pub(crate) fn skew_line(skew: &ArgumentSkew) -> String {
    let changes: Vec<String> = [("added", &skew.added), ("removed", &skew.removed)]
        .into_iter()
        .filter(|(_, arguments)| !arguments.is_empty())
        .map(|(change, arguments)| format!("{change} {arguments}"))
        .collect();
    if changes.is_empty() {
        return String::new();
    }
    format!("kernel arguments in effect after the next full reboot: {}\n", changes.join("; "))
}

fn counted(deviations: usize) -> String {
    format!("{deviations} deviation{}", if deviations == 1 { "" } else { "s" })
}

fn line(drift: &Drift, more: &str) -> String {
    format!("  {}  {}{more}\n", drift.path, drift.description())
}
