//! Differences in the contents of files and units between two configs: sizes and numbers of lines, or unified diffs where
//! the operator asks for contents.

use std::collections::BTreeMap;

use similar::algorithms::{Capture, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffOp};

use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files::unit_path;
use crate::core::plan::diff::ConfigDiff;
use crate::core::values::names::ManagedPath;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Longest printed diff of one file, in lines.
const LONGEST_DIFF: usize = 200;

/// Contents of one path before and after the change. A new or a removed file is in no pair: the list of changes names
/// it.
#[derive(Debug)]
pub(crate) struct ContentChange {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Collect the files, units and drop-ins whose contents differ between two configs.
pub(crate) fn content_changes(
    diff: &ConfigDiff,
    current: Option<&HostConfig>,
    desired: &HostConfig,
) -> BTreeMap<ManagedPath, ContentChange> {
    let nothing = HostConfig::default();
    let current = current.unwrap_or(&nothing);
    let mut changes = BTreeMap::new();
    let mut add = |path: &ManagedPath, before: Option<&[u8]>, after: Option<&[u8]>| {
        if let (Some(before), Some(after)) = (before, after)
            && before != after
        {
            changes.insert(path.clone(), ContentChange::new(before, after));
        }
    };
    for path in diff.files.keys() {
        let contents = |config: &'_ HostConfig| config.files.get(path).map(|file| file.contents.clone());
        add(path, contents(current).as_deref(), contents(desired).as_deref());
    }
    for name in diff.units.keys() {
        for (path, before, after) in unit_texts(name, current, desired) {
            add(&path, before.map(str::as_bytes), after.map(str::as_bytes));
        }
    }
    changes
}

impl ContentChange {
    pub(crate) fn new(before: &[u8], after: &[u8]) -> Self {
        Self { before: before.to_vec(), after: after.to_vec() }
    }

    /// Describe the change without the contents.
    pub(crate) fn summary(&self) -> String {
        let sizes = format!("{} → {} bytes", self.before.len(), self.after.len());
        let Some([before, after]) = self.lines() else { return format!("{sizes}, not text") };
        let (mut removed, mut added) = (0, 0);
        for (tag, lines) in hunks(&before, &after, 0)
            .iter()
            .flatten()
            .flat_map(|change| change.iter_slices(before.as_slice(), after.as_slice()).collect::<Vec<_>>())
        {
            match tag {
                ChangeTag::Delete => removed += lines.len(),
                ChangeTag::Insert => added += lines.len(),
                ChangeTag::Equal => {}
            }
        }
        format!("{sizes}, lines +{added} -{removed}")
    }

    fn write_line_numbers(&self, page: &mut StyledText) {
        let Some([before, after]) = self.lines() else { return };
        let hunks = hunks(&before, &after, 0);
        for hunk in hunks.iter().take(LONGEST_DIFF) {
            let header = UnifiedHunkHeader::new(hunk).to_string();
            page.push("    ").push_as(TextRole::Faint, header.trim_end()).push("\n");
        }
        let more = hunks.len().saturating_sub(LONGEST_DIFF);
        if more > 0 {
            page.push("    ").push_as(TextRole::Faint, format!("… {more} more places")).push("\n");
        }
    }

    fn lines(&self) -> Option<[Vec<&str>; 2]> {
        let lines = |bytes| Some(std::str::from_utf8(bytes).ok()?.split_inclusive('\n').collect());
        Some([lines(&self.before)?, lines(&self.after)?])
    }

    /// Add the line numbers that differ, or the unified diff where contents are shown.
    pub(crate) fn write(&self, path: &ManagedPath, shows_contents: bool, page: &mut StyledText) {
        let Some([before, after]) = self.lines().filter(|_| shows_contents) else {
            page.push(format!("  {path}  {}\n", self.summary()));
            return self.write_line_numbers(page);
        };
        let mut lines = vec![
            (Some(TextRole::Removed), format!("--- {path}")),
            (Some(TextRole::Added), format!("+++ {path}")),
        ];
        for hunk in hunks(&before, &after, CONTEXT_LINES) {
            lines.push((
                Some(TextRole::Faint),
                UnifiedHunkHeader::new(&hunk).to_string().trim_end().to_owned(),
            ));
            let changes =
                hunk.iter().flat_map(|change| change.iter_slices(before.as_slice(), after.as_slice()));
            for (tag, text) in changes.flat_map(|(tag, texts)| texts.iter().map(move |text| (tag, text))) {
                let line = text.trim_end_matches('\n');
                lines.push(match tag {
                    ChangeTag::Equal => (None, format!(" {line}")),
                    ChangeTag::Delete => (Some(TextRole::Removed), format!("-{line}")),
                    ChangeTag::Insert => (Some(TextRole::Added), format!("+{line}")),
                });
                if !text.ends_with('\n') {
                    lines.push((Some(TextRole::Faint), "\\ no newline at the end".to_owned()));
                }
            }
        }
        let longer = lines.len().saturating_sub(LONGEST_DIFF);
        if longer > 0 {
            lines.truncate(LONGEST_DIFF);
            lines.push((Some(TextRole::Faint), format!("… {longer} more lines")));
        }
        for (role, line) in lines {
            match role {
                Some(role) => page.push_as(role, line),
                None => page.push(line),
            };
            page.push("\n");
        }
    }
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

/// Compute the changed ranges with `context` unchanged lines around them. Uses `myers` directly: the `TextDiff` of `similar`
/// links every algorithm of the crate.
fn hunks(before: &[&str], after: &[&str], context: usize) -> Vec<Vec<DiffOp>> {
    let mut changes = Replace::new(Capture::new());
    let Ok(()) = myers::diff(&mut changes, before, 0..before.len(), after, 0..after.len());
    changes.into_inner().into_grouped_ops(context)
}
