//! Error causes and lists of names as one line of text.

use std::error::Error;

/// An error and its causes in one line, outermost first. A cause that an error names already is named once, and numbers
/// of operating system errors are left out: their texts say the same.
pub fn chain(error: &dyn Error) -> String {
    let mut text = without_numbers(&error.to_string());
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let words = without_numbers(&deeper.to_string());
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = deeper.source();
    }
    text
}

/// Remove ` (os error N)`, which the standard library appends to the texts of errors.
fn without_numbers(text: &str) -> String {
    const BEGINNING: &str = " (os error ";
    let mut parts = text.split(BEGINNING);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|digit| digit.is_ascii_digit()) => kept.push_str(rest),
            _ => kept.push_str(&format!("{BEGINNING}{part}")),
        }
    }
    kept
}

/// Return the text of a JSON error without the place at its end, for a message that gives the place itself.
#[must_use]
pub fn without_place(error: &serde_json::Error) -> String {
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    error.to_string().trim_end_matches(&suffix).to_owned()
}

/// Join the first `most` names with commas and count the rest: `a, b and 3 more`.
#[must_use]
pub fn first_of(names: &[String], most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let first = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("connecting to the bus: {0}")]
    struct Repeating(#[source] io::Error);

    #[test]
    fn each_cause_is_named_once_and_without_its_number() {
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(chain(&Repeating(missing)), "connecting to the bus: No such file or directory");
        for (text, shown) in [
            ("a (os error 2): b (os error 13)", "a: b"),
            ("a (os error x)", "a (os error x)"),
            ("(os error 2)", "(os error 2)"),
        ] {
            assert_eq!(without_numbers(text), shown);
        }
    }
}
