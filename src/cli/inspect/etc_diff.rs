//! `flameholder etc-diff`: show the three-way merge of `/etc` that a deployment of another image would get.

use std::path::PathBuf;

use clap::Args;

use crate::cli::input::print_json;
use crate::cli::inspect::status::short_commit;
use crate::cli::output::paint::{TextPainter, TextRole};
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, OutputFormat};
use crate::core::etc_merge::{
    LostChange, LostPart, MergeConflict, MergeFindings, MergeItem, MergeRefusal, display_path,
};
use crate::core::values::tree::ChangeKind;
use crate::os::DeploymentId;
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::etc_diff::{DeploymentName, EtcDiffDocument};
use crate::transaction::plan::etc_merge;
use crate::transaction::plan::etc_merge::EtcDiff;

#[derive(Debug, Args)]
pub(crate) struct EtcDiffArgs {
    /// Read an OSTree sysroot that is not booted, instead of the running host
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Deployment to merge with, by the first digits of its commit; default: the staged or pending one, or
    /// else the booted one, which shows local changes alone
    #[arg(long, value_name = "COMMIT")]
    to: Option<String>,
    /// Notation of the result
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: OutputFormat,
}

pub(crate) fn run(args: &EtcDiffArgs) -> Result<CommandOutcome, CliError> {
    let sysroot = args.sysroot.clone().unwrap_or_else(|| PathBuf::from("/"));
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, &sysroot, SysrootAccess::Read)?;
    let diff = etc_merge::diff(&mut session, &sysroot, args.to.as_deref())?;
    match args.output {
        OutputFormat::Json => {
            let [from, to] = [&diff.from, &diff.to].map(name);
            print_json(&EtcDiffDocument::of(from, to, &diff.merge.findings))?;
        }
        OutputFormat::Text => print_text(&render(&diff, TextPainter::for_stdout()))?,
    }
    Ok(CommandOutcome::Success)
}

fn name(id: &DeploymentId) -> DeploymentName {
    DeploymentName { stateroot: id.stateroot.clone(), commit: id.commit.clone(), serial: id.serial }
}

fn render(diff: &EtcDiff, paint: TextPainter) -> String {
    let mut text = paint.paint(TextRole::Heading, &format!("/etc of {}", short(&diff.from)));
    if diff.from == diff.to {
        text.push_str("\n  compared with its own image\n");
    } else {
        text.push_str(&format!("\n  merged with the image of {}\n", short(&diff.to)));
    }
    if diff.merge.findings.is_empty() {
        text.push_str("  no changes\n");
    }
    text.push_str(&sections(&diff.merge.findings, paint));
    text
}

fn short(id: &DeploymentId) -> String {
    format!("{} {}.{}", id.stateroot, short_commit(&id.commit), id.serial)
}

/// Render the merge by outcome; refusals, which stop an update, come first.
fn sections(findings: &MergeFindings, paint: TextPainter) -> String {
    let MergeFindings { kept, from_image, conflicts, losses, not_taken, refusals } = findings;
    let item = |item: &MergeItem| format!("{} {}", sign(item.change, paint), display_path(&item.path));
    let conflict = |both: &MergeConflict| {
        let words = format!("{} locally, {} by the image", past(both.local), past(both.image));
        format!(
            "{} {}  {}",
            sign(both.local, paint),
            display_path(&both.path),
            paint.paint(TextRole::Faint, &words)
        )
    };
    let loss = |loss: &LostChange| {
        let words = paint.paint(TextRole::Faint, in_words(loss.lost));
        format!("{} {}  {words}", sign(loss.change, paint), display_path(&loss.path))
    };
    [
        section("Refused: libostree will not merge", refusals.iter().map(MergeRefusal::to_string), paint),
        section("Lost: local changes that libostree does not carry over", losses.iter().map(loss), paint),
        section(
            "Conflicts: changed on both sides, the local one wins",
            conflicts.iter().map(conflict),
            paint,
        ),
        section("Kept local", kept.iter().map(item), paint),
        section("From the image", from_image.iter().map(item), paint),
        section(
            "Not taken: changes of the image that are missing from the new /etc",
            not_taken.iter().map(item),
            paint,
        ),
    ]
    .concat()
}

fn section(heading: &str, lines: impl Iterator<Item = String>, paint: TextPainter) -> String {
    let lines: String = lines.map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n{}\n{lines}", paint.paint(TextRole::Heading, heading))
}

fn sign(change: ChangeKind, paint: TextPainter) -> String {
    match change {
        ChangeKind::Add => paint.paint(TextRole::Added, "+"),
        ChangeKind::Modify => paint.paint(TextRole::Changed, "~"),
        ChangeKind::Remove => paint.paint(TextRole::Removed, "-"),
    }
}

fn past(change: ChangeKind) -> &'static str {
    match change {
        ChangeKind::Add => "added",
        ChangeKind::Modify => "changed",
        ChangeKind::Remove => "removed",
    }
}

/// Describe the part of a local change that the merge loses.
pub(crate) fn in_words(lost: LostPart) -> &'static str {
    match lost {
        LostPart::DirectoryAttributes => "mode or owner of a directory without other changes",
        LostPart::Xattrs => "extended attributes, which libostree does not compare",
        LostPart::SpecialFile => "a device, socket or pipe, which libostree does not copy",
        LostPart::Everything => "the whole change: below a local directory that the new image has, too",
    }
}
