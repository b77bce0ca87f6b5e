//! Unified diffs of files and units between two configs. For secrets and binary files only sizes are shown.

use similar::algorithms::{Capture, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffOp};

use crate::cli::output::paint::{TextPainter, TextRole};
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files::unit_path;
use crate::core::plan::diff::ConfigDiff;
use crate::core::values::names::ManagedPath;
use crate::core::values::secrets::looks_secret;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Longest printed diff of one file, in lines.
const LONGEST_DIFF: usize = 200;

#[derive(Debug, Clone, Copy)]
struct Version<'a> {
    contents: &'a [u8],
    mode: u32,
}

/// Render the diffs of all files, units and drop-ins that differ between two configs.
pub(crate) fn render(
    diff: &ConfigDiff,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    show_secrets: bool,
    paint: TextPainter,
) -> String {
    let nothing = HostConfig::default();
    let current = current.unwrap_or(&nothing);
    let mut text = String::new();
    let mut show = |path: &ManagedPath, before: Option<Version<'_>>, after: Option<Version<'_>>| {
        // A new or removed file has its line in the list of changes, and no diff.
        if let (Some(before), Some(after)) = (before, after)
            && before.contents != after.contents
        {
            text.push_str(&one(path, before, after, show_secrets, paint));
        }
    };
    for path in diff.files.keys() {
        let version =
            |config: &'_ HostConfig| config.files.get(path).map(|file| (file.contents.clone(), file.mode));
        let (before, after) = (version(current), version(desired));
        show(path, before.as_ref().map(as_version), after.as_ref().map(as_version));
    }
    for name in diff.units.keys() {
        for (path, before, after) in unit_texts(name, current, desired) {
            let plain = |text| Version { contents: str::as_bytes(text), mode: 0o644 };
            show(&path, before.map(plain), after.map(plain));
        }
    }
    text
}

fn as_version((contents, mode): &(Vec<u8>, u32)) -> Version<'_> {
    Version { contents, mode: *mode }
}

type TextPair<'a> = (ManagedPath, Option<&'a str>, Option<&'a str>);

/// Collect the texts of a unit and its drop-ins in both configs.
fn unit_texts<'a>(name: &str, current: &'a HostConfig, desired: &'a HostConfig) -> Vec<TextPair<'a>> {
    let (before, after) = (current.units.get(name), desired.units.get(name));
    let own = (
        unit_path(name),
        before.and_then(|unit| unit.contents.as_deref()),
        after.and_then(|unit| unit.contents.as_deref()),
    );
    let drop_ins = after.into_iter().flat_map(|unit| &unit.drop_ins);
    let drop_ins = drop_ins.map(|(drop_in, text)| {
        let earlier = before.and_then(|unit| unit.drop_ins.get(drop_in)).map(String::as_str);
        (unit_path(&format!("{name}.d/{drop_in}")), earlier, Some(text.as_str()))
    });
    std::iter::once(own).chain(drop_ins).collect()
}

fn one(
    path: &ManagedPath,
    before: Version<'_>,
    after: Version<'_>,
    show_secrets: bool,
    paint: TextPainter,
) -> String {
    let secret = |version: Version<'_>| looks_secret(path, version.mode, version.contents);
    let sizes = format!("{} → {} bytes", before.contents.len(), after.contents.len());
    if !show_secrets && (secret(before) || secret(after)) {
        let why = "looks secret; --show-secrets shows it";
        return format!("{path}: changed, {sizes} ({why})\n");
    }
    match (std::str::from_utf8(before.contents), std::str::from_utf8(after.contents)) {
        (Ok(before), Ok(after)) => unified(path, before, after, paint),
        _ => format!("{path}: changed, {sizes} (not text)\n"),
    }
}

fn unified(path: &ManagedPath, before: &str, after: &str, paint: TextPainter) -> String {
    let mut lines = vec![
        paint.paint(TextRole::Removed, &format!("--- {path}")),
        paint.paint(TextRole::Added, &format!("+++ {path}")),
    ];
    let [before, after] = [before, after].map(|text| text.split_inclusive('\n').collect::<Vec<&str>>());
    for hunk in hunks(&before, &after) {
        lines.push(paint.paint(TextRole::Faint, UnifiedHunkHeader::new(&hunk).to_string().trim_end()));
        let changes = hunk.iter().flat_map(|change| change.iter_slices(before.as_slice(), after.as_slice()));
        for (tag, text) in changes.flat_map(|(tag, texts)| texts.iter().map(move |text| (tag, text))) {
            let line = printable(text.trim_end_matches('\n'));
            lines.push(match tag {
                ChangeTag::Equal => format!(" {line}"),
                ChangeTag::Delete => paint.paint(TextRole::Removed, &format!("-{line}")),
                ChangeTag::Insert => paint.paint(TextRole::Added, &format!("+{line}")),
            });
            if !text.ends_with('\n') {
                lines.push(paint.paint(TextRole::Faint, "\\ no newline at the end"));
            }
        }
    }
    let longer = lines.len().saturating_sub(LONGEST_DIFF);
    if longer > 0 {
        lines.truncate(LONGEST_DIFF);
        lines.push(paint.paint(TextRole::Faint, &format!("… {longer} more lines")));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Compute the changed ranges and their context lines. Uses `myers` directly: the `TextDiff` of `similar`
/// links every algorithm of the crate.
fn hunks(before: &[&str], after: &[&str]) -> Vec<Vec<DiffOp>> {
    let mut changes = Replace::new(Capture::new());
    let Ok(()) = myers::diff(&mut changes, before, 0..before.len(), after, 0..after.len());
    changes.into_inner().into_grouped_ops(CONTEXT_LINES)
}

/// Replace control characters, with which a config could steer the reader's terminal.
fn printable(line: &str) -> String {
    let visible = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    line.chars().map(visible).collect()
}
