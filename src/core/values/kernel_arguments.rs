//! Kernel arguments: which ones a boot entry must list, and where.
//!
//! An argument is one word as written, quotes included, and two arguments are the same if they are
//! written the same. The kernel gives an order and a number of occurrences their meaning
//! (`hugepagesz=2M hugepages=4 hugepagesz=1G hugepages=1`), so both are kept exactly. Arguments
//! that no config lists are *foreign*: the installer's, a tuning daemon's, an administrator's. They
//! keep their place.

use std::collections::BTreeMap;
use std::fmt;

/// White space to the kernel, but not to WHATWG, whose definition `is_ascii_whitespace` follows.
const VERTICAL_TAB: char = '\u{b}';

/// One argument of the kernel command line, as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelArgument(String);

impl KernelArgument {
    /// The argument as written.
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

/// Splits a line of arguments at white space outside double quotes, as the kernel does.
///
/// A quote may stand anywhere in an argument, belongs to it, and cannot be escaped. A quote that is
/// never closed keeps the rest of the line together.
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

/// The arguments of a boot entry once `desired` is applied to `existing`.
///
/// `current` is what the last applied config listed: as many of these go, the last occurrences
/// first, because a foreign argument that reads the same was there before. Foreign arguments keep
/// their place and order, except those that read like a desired one: they are taken over. The
/// desired ones follow at the end, so they occur exactly as often as listed and in that order.
/// Where `existing` is like that already, it stays as it is.
///
/// Applied to its own result with `current` set to `desired`, nothing changes. With the old
/// `current`, nothing changes either unless foreign arguments read like current ones: what has been
/// removed once cannot be told from what stays.
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

/// `listed` less one occurrence of each of `taken`.
#[must_use]
pub fn less(listed: &[KernelArgument], taken: &[KernelArgument]) -> Vec<KernelArgument> {
    let mut left = listed.to_vec();
    for argument in taken {
        if let Some(place) = left.iter().rposition(|other| other == argument) {
            left.remove(place);
        }
    }
    left
}

/// The desired arguments that others had set: they stand among the existing ones more often than
/// is `owned`. Each is named once.
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

/// The desired arguments that are not among the existing ones as often as listed, or not in the
/// order listed.
///
/// An argument is missing if it does not occur behind the place of those before it. More
/// occurrences, and other arguments in between, are no fault.
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

/// The foreign arguments: existing ones that are not desired, less the current ones.
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
