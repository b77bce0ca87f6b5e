//! Kernel arguments as a list that others own parts of: ours stand as often and in the order that
//! a config lists them, foreign ones keep their place.

use std::fmt;

/// One argument as written, quotes included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelArgument(String);

impl fmt::Display for KernelArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits on white space outside double quotes, by the kernel's rules: no escapes, and quotes
/// belong to the argument.
#[must_use]
pub fn parse(text: &str) -> Vec<KernelArgument> {
    let mut arguments = Vec::new();
    let mut argument = String::new();
    let mut quoted = false;
    for character in text.chars() {
        quoted ^= character == '"';
        if !character.is_whitespace() || quoted {
            argument.push(character);
        } else if !argument.is_empty() {
            arguments.push(KernelArgument(std::mem::take(&mut argument)));
        }
    }
    if !argument.is_empty() {
        arguments.push(KernelArgument(argument));
    }
    arguments
}

/// The arguments of a boot entry after a change from `current` to `desired`, both as a config
/// lists them.
#[must_use]
pub fn apply(
    existing: &[KernelArgument],
    current: &[KernelArgument],
    desired: &[KernelArgument],
) -> Vec<KernelArgument> {
    let listed: Vec<&KernelArgument> =
        existing.iter().filter(|argument| desired.contains(argument)).collect();
    let leaving = |argument: &&KernelArgument| current.contains(argument) && !desired.contains(argument);
    if listed.into_iter().eq(desired) && !existing.iter().any(|argument| leaving(&argument)) {
        return existing.to_vec();
    }
    let mut kept = existing.to_vec();
    for owned in current.iter().rev() {
        // Ours were appended, so the last of equal ones is ours.
        if let Some(last) = kept.iter().rposition(|argument| argument == owned) {
            kept.remove(last);
        }
    }
    kept.retain(|argument| !desired.contains(argument));
    kept.extend_from_slice(desired);
    kept
}
