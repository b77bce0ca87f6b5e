//! Kernel arguments of a boot entry: parsing, the change from the current to the desired config, and drift.
//!
//! An argument is one word as written, quotes included; two arguments are equal if they are written the same.
//! Order and repetition matter to the kernel (`hugepagesz=2M hugepages=4 hugepagesz=1G hugepages=1`), so both
//! are kept exactly. Arguments that no config lists are *foreign*: set by the installer, a tuning daemon or
//! an administrator. They keep their place.

pub mod argument_skew;
pub mod tuning_file;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// White space for the kernel, but not for `is_ascii_whitespace`, which follows WHATWG.
const VERTICAL_TAB: char = '\u{b}';

/// One argument of the kernel command line, as written. Never empty; white space inside double quotes only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KernelArgument(String);

impl KernelArgument {
    /// Compose `key=value`. Both are the agent's own: neither contains white space or a quote.
    pub(crate) fn with_value(key: &str, value: impl fmt::Display) -> Self {
        Self(format!("{key}{value}"))
    }

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

impl From<KernelArgument> for String {
    fn from(argument: KernelArgument) -> Self {
        argument.0
    }
}

/// A text that is not exactly one kernel argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not one kernel argument: {0:?}")]
pub struct NotOneArgument(String);

impl TryFrom<String> for KernelArgument {
    type Error = NotOneArgument;

    fn try_from(text: String) -> Result<Self, NotOneArgument> {
        if words(&text).eq([text.as_str()]) { Ok(Self(text)) } else { Err(NotOneArgument(text)) }
    }
}

/// Split a kernel command line at white space outside double quotes.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |character: char| {
        quoted ^= character == '"';
        !quoted && (character.is_ascii_whitespace() || character == VERTICAL_TAB)
    })
    .filter(|word| !word.is_empty())
}

/// Kernel arguments in the order of the command line, repetitions included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelArguments(Vec<KernelArgument>);

impl Deref for KernelArguments {
    type Target = [KernelArgument];

    fn deref(&self) -> &[KernelArgument] {
        &self.0
    }
}

impl FromIterator<KernelArgument> for KernelArguments {
    fn from_iter<I: IntoIterator<Item = KernelArgument>>(arguments: I) -> Self {
        Self(arguments.into_iter().collect())
    }
}

/// The arguments as a command line.
impl fmt::Display for KernelArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, argument) in self.iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            write!(f, "{space}{argument}")?;
        }
        Ok(())
    }
}

impl KernelArguments {
    /// Split a kernel command line at white space outside double quotes, as the kernel does.
    ///
    /// A quote may stand anywhere in an argument, is part of it, and cannot be escaped. After an unclosed quote
    /// the rest of the line is one argument.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        words(line).map(|word| KernelArgument(word.to_owned())).collect()
    }

    /// Split each of several lines, and list their arguments in order.
    #[must_use]
    pub fn parse_all<T: AsRef<str>>(lines: &[T]) -> Self {
        lines.iter().flat_map(|line| Self::parse(line.as_ref()).0).collect()
    }

    pub(crate) fn push(&mut self, argument: KernelArgument) {
        self.0.push(argument);
    }

    /// Keep the arguments for which `is_kept` returns true.
    pub fn retain(&mut self, is_kept: impl FnMut(&KernelArgument) -> bool) {
        self.0.retain(is_kept);
    }

    /// Return the value of `key`, which ends with `=`. The last occurrence is in effect.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.iter().rev().find_map(|argument| argument.as_str().strip_prefix(key))
    }

    /// Compute the arguments of a boot entry after the change from `current` to `desired`.
    ///
    /// `self` are those of the boot entry; `current` and `desired` are the lists of the two configs. Each
    /// current argument is removed once, its last occurrence first, because an equal foreign argument was set
    /// earlier. Foreign arguments keep their place and order, except those equal to a desired one: these become
    /// managed. The desired arguments are appended, exactly as often and in the order listed. If `self`
    /// fulfils this already, it is returned unchanged.
    ///
    /// The function is idempotent: applied to its own result with `current` set to `desired`, it changes nothing.
    /// With the old `current` it changes nothing either, unless a foreign argument equals a current one: an
    /// occurrence removed by the first call cannot be told from a foreign one that remains.
    #[must_use]
    pub fn updated(&self, current: &Self, desired: &Self) -> Self {
        let mut kept = without(self, current, desired);
        let desired_in_place = self.iter().filter(|argument| desired.contains(argument)).eq(desired.iter());
        if desired_in_place && kept.len() + desired.len() == self.len() {
            return self.clone();
        }
        kept.extend_from_slice(desired);
        Self(kept)
    }

    /// Remove one occurrence of each argument of `taken`, the last one first.
    #[must_use]
    pub fn subtract(&self, taken: &Self) -> Self {
        let mut left = self.0.clone();
        for argument in taken.iter() {
            if let Some(place) = left.iter().rposition(|other| other == argument) {
                left.remove(place);
            }
        }
        Self(left)
    }

    /// The desired arguments that also have foreign occurrences: there are more of them than in `owned`. Each
    /// is listed once. [`updated`](Self::updated) takes these occurrences over.
    #[must_use]
    pub fn taken_over(&self, owned: &Self, desired: &Self) -> Self {
        let times =
            |list: &[KernelArgument], argument| list.iter().filter(|other| *other == argument).count();
        let mut taken: Vec<KernelArgument> = Vec::new();
        for argument in desired.iter() {
            if times(self, argument) > times(owned, argument) && !taken.contains(argument) {
                taken.push(argument.clone());
            }
        }
        Self(taken)
    }

    /// The drift of a boot entry: desired arguments that do not occur as often, or not in the order
    /// listed.
    ///
    /// An argument is missing if it does not occur after the place of the argument before it. Additional
    /// occurrences and other arguments in between are no drift.
    #[must_use]
    pub fn missing(&self, desired: &Self) -> Self {
        let mut behind = self.iter();
        let mut missing = Vec::new();
        for argument in desired.iter() {
            let mut ahead = behind.clone();
            if ahead.any(|present| present == argument) {
                behind = ahead;
            } else {
                missing.push(argument.clone());
            }
        }
        Self(missing)
    }
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
