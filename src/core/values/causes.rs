//! Error causes and lists of names as one line of text.

use std::error::Error;

/// An error and its causes in one line, outermost first.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text.push_str(": ");
        text.push_str(&deeper.to_string());
        cause = deeper.source();
    }
    text
}

/// Join the first `most` names with commas and count the rest: `a, b and 3 more`.
#[must_use]
pub fn first_of(names: &[String], most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let first = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
