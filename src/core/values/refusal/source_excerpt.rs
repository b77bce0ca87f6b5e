//! Piece of a line of a refused document, with a mark below the fault.

use std::fmt;
use std::ops::Range;

use crate::core::values::foreign_text::harmless_line;

/// Characters that an excerpt shows.
const SHOWN: usize = 72;
/// Width of line numbers.
const NUMBERS: usize = 6;

/// Piece of a line. It holds no value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceExcerpt {
    line: u64,
    text: String,
    /// Characters before the mark.
    before: usize,
    /// Characters above the mark.
    marked: usize,
}

impl SourceExcerpt {
    /// Show `shown` of `document`, and mark `marked`; both are bytes. `None` if there is nothing to show, or if `shown` has
    /// more than one line.
    pub(super) fn of(document: &str, line: u64, shown: Range<usize>, marked: Range<usize>) -> Option<Self> {
        let text = document.get(shown.clone())?;
        let (before, above) = (document.get(shown.start..marked.start)?, document.get(marked)?);
        if text.is_empty() || text.contains('\n') {
            return None;
        }
        let before = before.chars().count();
        if before >= SHOWN {
            return None;
        }
        let marked = above.chars().count().clamp(1, SHOWN - before);
        let cut: String = text.chars().take(SHOWN).collect();
        let end = if cut.len() < text.len() { "..." } else { "" };
        Some(Self { line, text: format!("{}{end}", harmless_line(&cut)), before, marked })
    }
}

impl fmt::Display for SourceExcerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, text, before, marked } = self;
        writeln!(f, "{line:>NUMBERS$} | {text}")?;
        write!(f, "{:>NUMBERS$} | {:before$}{:^<marked$}", "", "", "")
    }
}
