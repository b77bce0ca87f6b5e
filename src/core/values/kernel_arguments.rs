//! Kernel arguments of a boot entry: parsing, the change from the current to the desired config, and drift.
//!
//! An argument is one word as written, quotes included; two arguments are equal if they are written the same.
//! Order and repetition matter to the kernel (`hugepagesz=2M hugepages=4 hugepagesz=1G hugepages=1`), so both
//! are kept exactly. Arguments that no config lists are *foreign*: set by the installer, a tuning daemon or
//! an administrator. They keep their place.

use std::collections::BTreeMap;
use std::fmt;

/// White space for the kernel, but not for `is_ascii_whitespace`, which follows WHATWG.
const VERTICAL_TAB: char = '\u{b}';

/// One argument of the kernel command line, as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelArgument(String);

impl KernelArgument {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KernelArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Split a kernel command line at white space outside double quotes, as the kernel does.
///
/// A quote may stand anywhere in an argument, is part of it, and cannot be escaped. After an unclosed quote
/// the rest of the line is one argument.
#[must_use]
pub fn parse(line: &str) -> Vec<KernelArgument> {
    let mut quoted = false;
    line.split(|character: char| {
        quoted ^= character == '"';
        !quoted && (character.is_ascii_whitespace() || character == VERTICAL_TAB)
    })
    .filter(|word| !word.is_empty())
    .map(|word| KernelArgument(word.to_owned()))
    .collect()
}

/// Compute the arguments of a boot entry after the change from `current` to `desired`.
///
/// `existing` is the boot entry as it is; `current` and `desired` are the lists of the two configs. Each
/// current argument is removed once, its last occurrence first, because an equal foreign argument was set
/// earlier. Foreign arguments keep their place and order, except those equal to a desired one: these become
/// managed. The desired arguments are appended, exactly as often and in the order listed. If `existing`
/// fulfils this already, it is returned unchanged.
///
/// The function is idempotent: applied to its own result with `current` set to `desired`, it changes nothing.
/// With the old `current` it changes nothing either, unless a foreign argument equals a current one: an
/// occurrence removed by the first call cannot be told from a foreign one that remains.
#[must_use]
pub fn apply(
    existing: &[KernelArgument],
    current: &[KernelArgument],
    desired: &[KernelArgument],
) -> Vec<KernelArgument> {
    let mut kept = without(existing, current, desired);
    let desired_in_place = existing.iter().filter(|argument| desired.contains(argument)).eq(desired);
    if desired_in_place && kept.len() + desired.len() == existing.len() {
        return existing.to_vec();
    }
    kept.extend_from_slice(desired);
    kept
}

/// Remove from `listed` one occurrence of each argument of `taken`, the last one first.
#[must_use]
pub fn subtract(listed: &[KernelArgument], taken: &[KernelArgument]) -> Vec<KernelArgument> {
    let mut left = listed.to_vec();
    for argument in taken {
        if let Some(place) = left.iter().rposition(|other| other == argument) {
            left.remove(place);
        }
    }
    left
}

/// The desired arguments that also have foreign occurrences: `existing` has more of them than `owned`. Each
/// is listed once. [`apply`] takes these occurrences over.
#[must_use]
pub fn taken_over(
    existing: &[KernelArgument],
    owned: &[KernelArgument],
    desired: &[KernelArgument],
) -> Vec<KernelArgument> {
    let times = |list: &[KernelArgument], argument| list.iter().filter(|other| *other == argument).count();
    let mut taken: Vec<KernelArgument> = Vec::new();
    for argument in desired {
        if times(existing, argument) > times(owned, argument) && !taken.contains(argument) {
            taken.push(argument.clone());
        }
    }
    taken
}

/// The drift of a boot entry: desired arguments that `existing` does not have as often, or not in the order
/// listed.
///
/// An argument is missing if it does not occur after the place of the argument before it. Additional
/// occurrences and other arguments in between are no drift.
#[must_use]
pub fn missing(existing: &[KernelArgument], desired: &[KernelArgument]) -> Vec<KernelArgument> {
    let mut behind = existing.iter();
    let mut missing = Vec::new();
    for argument in desired {
        let mut ahead = behind.clone();
        if ahead.any(|present| present == argument) {
            behind = ahead;
        } else {
            missing.push(argument.clone());
        }
    }
    missing
}

/// The foreign arguments: `existing` without the desired ones, and without one occurrence of each current
/// one.
fn without(
    existing: &[KernelArgument],
    current: &[KernelArgument],
    desired: &[KernelArgument],
) -> Vec<KernelArgument> {
    let mut to_remove: BTreeMap<&KernelArgument, usize> = BTreeMap::new();
    for argument in current {
        *to_remove.entry(argument).or_default() += 1;
    }
    let mut foreign = Vec::new();
    for argument in existing.iter().rev().filter(|argument| !desired.contains(argument)) {
        match to_remove.get_mut(argument) {
            Some(left) if *left > 0 => *left -= 1,
            _ => foreign.push(argument.clone()),
        }
    }
    foreign.reverse();
    foreign
}
