//! `flameholder etc-diff`

use std::path::PathBuf;

use clap::Args;

use crate::cli::input::print_json;
use crate::cli::inspect::status::short_commit;
use crate::cli::output::paint::{Paint, Role};
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, Format, Verdict};
use crate::core::etc_merge::{
    LostChange, LostPart, MergeConflict, MergeFindings, MergeItem, MergeRefusal, shown,
};
use crate::core::values::change::ChangeKind;
use crate::os::DeploymentId;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::etc_diff::{DeploymentName, EtcDiffDocument};
use crate::transaction::plan::etc_merge;
use crate::transaction::plan::etc_merge::EtcDiff;

#[derive(Debug, Args)]
pub(crate) struct EtcDiffArgs {
    /// An OSTree sysroot that is not running, instead of the running one
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// The deployment to merge with, by the first digits of its commit; otherwise the staged or pending one, and
    /// where there is none the same one, which shows local changes alone
    #[arg(long, value_name = "COMMIT")]
    to: Option<String>,
    /// How the merge is written
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &EtcDiffArgs) -> Result<Verdict, CliError> {
    let sysroot = args.sysroot.clone().unwrap_or_else(|| PathBuf::from("/"));
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, &sysroot, Access::Read)?;
    let diff = etc_merge::diff(&mut session, &sysroot, args.to.as_deref())?;
    match args.output {
        Format::Json => {
            let [from, to] = [&diff.from, &diff.to].map(name);
            print_json(&EtcDiffDocument::of(from, to, &diff.merge.findings))?;
        }
        Format::Text => print_text(&render(&diff, Paint::for_stdout()))?,
    }
    Ok(Verdict::Fine)
}

fn name(id: &DeploymentId) -> DeploymentName {
    DeploymentName { stateroot: id.stateroot.clone(), commit: id.commit.clone(), serial: id.serial }
}

fn render(diff: &EtcDiff, paint: Paint) -> String {
    let mut text = paint.paint(Role::Heading, &format!("/etc of {}", short(&diff.from)));
    if diff.from == diff.to {
        text.push_str("\n  as it differs from its image's\n");
    } else {
        text.push_str(&format!("\n  merged with the image of {}\n", short(&diff.to)));
    }
    if diff.merge.findings.is_empty() {
        text.push_str("  nothing was changed\n");
    }
    text.push_str(&sections(&diff.merge.findings, paint));
    text
}

fn short(id: &DeploymentId) -> String {
    format!("{} {}.{}", id.stateroot, short_commit(&id.commit), id.serial)
}

/// What is in the way comes first.
fn sections(findings: &MergeFindings, paint: Paint) -> String {
    let MergeFindings { kept, from_image, conflicts, losses, held_back, refusals } = findings;
    let item = |item: &MergeItem| format!("{} {}", sign(item.change, paint), shown(&item.path));
    let conflict = |both: &MergeConflict| {
        let words = format!("{} locally, {} by the image", past(both.local), past(both.image));
        format!("{} {}  {}", sign(both.local, paint), shown(&both.path), paint.paint(Role::Faint, &words))
    };
    let loss = |loss: &LostChange| {
        let words = paint.paint(Role::Faint, in_words(loss.lost));
        format!("{} {}  {words}", sign(loss.change, paint), shown(&loss.path))
    };
    [
        section("Refused: libostree will not merge", refusals.iter().map(MergeRefusal::to_string), paint),
        section("Lost: local changes that libostree leaves behind", losses.iter().map(loss), paint),
        section(
            "Conflicts: changed on both sides, the local one wins",
            conflicts.iter().map(conflict),
            paint,
        ),
        section("Kept local", kept.iter().map(item), paint),
        section("From the image", from_image.iter().map(item), paint),
        section("Held back: changes of the image that do not arrive", held_back.iter().map(item), paint),
    ]
    .concat()
}

fn section(heading: &str, lines: impl Iterator<Item = String>, paint: Paint) -> String {
    let lines: String = lines.map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n{}\n{lines}", paint.paint(Role::Heading, heading))
}

fn sign(change: ChangeKind, paint: Paint) -> String {
    match change {
        ChangeKind::Add => paint.paint(Role::Added, "+"),
        ChangeKind::Modify => paint.paint(Role::Changed, "~"),
        ChangeKind::Remove => paint.paint(Role::Removed, "-"),
    }
}

fn past(change: ChangeKind) -> &'static str {
    match change {
        ChangeKind::Add => "added",
        ChangeKind::Modify => "changed",
        ChangeKind::Remove => "removed",
    }
}

/// What gets lost of a local change.
pub(crate) fn in_words(lost: LostPart) -> &'static str {
    match lost {
        LostPart::DirectoryAttributes => "mode or owner of a directory in which nothing else changes",
        LostPart::Xattrs => "extended attributes, at which libostree does not look",
        LostPart::SpecialFile => "a device, socket or pipe, of which libostree copies none",
        LostPart::Everything => "in what the image made a directory too",
    }
}
