//! `flameholder etc-diff`: show the three-way merge of `/etc` that a deployment of another image would get.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::inspect::deployment_text::short_commit;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::terminal::print_styled;
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat, session};
use crate::core::etc_merge::{LostPart, MergeFindings, MergeItem, MergeRefusal, display_path};
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
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    sysroot: Option<PathBuf>,
    /// Deployment to merge with, by the first digits of its commit; default: the staged or pending one, or
    /// else the booted one, which shows local changes alone
    #[arg(long, value_name = "COMMIT")]
    to: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &EtcDiffArgs) -> Result<CommandOutcome, CliError> {
    let sysroot = match &args.sysroot {
        Some(sysroot) => sysroot.clone(),
        None => session::running_host().map(|_| PathBuf::from("/"))?,
    };
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, &sysroot, SysrootAccess::Read)?;
    let diff = etc_merge::diff(&mut session, &sysroot, args.to.as_deref())?;
    match args.output.format {
        OutputFormat::Document(notation) => {
            let [from, to] = [&diff.from, &diff.to].map(name);
            notation.print(&EtcDiffDocument::of(from, to, &diff.merge.findings))?;
        }
        OutputFormat::Text => print_styled(&render(&diff))?,
    }
    Ok(CommandOutcome::Success)
}

fn name(id: &DeploymentId) -> DeploymentName {
    DeploymentName { stateroot: id.stateroot.clone(), commit: id.commit.clone(), serial: id.serial }
}

fn render(diff: &EtcDiff) -> StyledText {
    let mut text = StyledText::default();
    text.push_as(TextRole::Heading, format!("/etc of {}", short(&diff.from)));
    if diff.from == diff.to {
        text.push("\n  compared with its own image\n");
    } else {
        text.push(format!("\n  merged with the image of {}\n", short(&diff.to)));
    }
    if diff.merge.findings.is_empty() {
        text.push("  no changes\n");
    }
    sections(&diff.merge.findings, &mut text);
    text
}

fn short(id: &DeploymentId) -> String {
    format!("{} {}.{}", id.stateroot, short_commit(&id.commit), id.serial)
}

/// Add the merge by outcome; refusals, which stop an update, come first.
fn sections(findings: &MergeFindings, text: &mut StyledText) {
    let MergeFindings { kept, from_image, conflicts, losses, not_taken, refusals } = findings;
    section(text, "Refused: libostree will not merge", refusals, |refusal: &MergeRefusal, line| {
        line.push(refusal);
    });
    section(text, "Lost: local changes that libostree does not carry over", losses, |loss, line| {
        path(loss.change, &loss.path, line).push("  ").push_as(TextRole::Faint, in_words(loss.lost));
    });
    section(text, "Conflicts: changed on both sides, the local one wins", conflicts, |both, line| {
        let words = format!("{} locally, {} by the image", past(both.local), past(both.image));
        path(both.local, &both.path, line).push("  ").push_as(TextRole::Faint, words);
    });
    let item = |item: &MergeItem, line: &mut StyledText| {
        path(item.change, &item.path, line);
    };
    section(text, "Kept local", kept, item);
    section(text, "From the image", from_image, item);
    section(text, "Not taken: changes of the image that are missing from the new /etc", not_taken, item);
}

fn section<T>(text: &mut StyledText, heading: &str, items: &[T], line: impl Fn(&T, &mut StyledText)) {
    if items.is_empty() {
        return;
    }
    text.push("\n").push_as(TextRole::Heading, heading).push("\n");
    for item in items {
        text.push("  ");
        line(item, text);
        text.push("\n");
    }
}

fn path<'t>(change: ChangeKind, path: &Path, text: &'t mut StyledText) -> &'t mut StyledText {
    let (role, sign) = sign(change);
    text.push_as(role, sign).push(" ").push(display_path(path))
}

/// Return the sign of a change in a list, and its style.
pub(crate) fn sign(change: ChangeKind) -> (TextRole, &'static str) {
    match change {
        ChangeKind::Add => (TextRole::Added, "+"),
        ChangeKind::Modify => (TextRole::Changed, "~"),
        ChangeKind::Remove => (TextRole::Removed, "-"),
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
