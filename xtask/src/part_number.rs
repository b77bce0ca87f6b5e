//! The number of one part of several, such as `2/8`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

/// One part of `count`, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartNumber {
    count: u32,
    index: u32,
}

impl PartNumber {
    /// The only part of one.
    pub const WHOLE: Self = Self { count: 1, index: 1 };

    /// Return part `index` of `count`, which are constants.
    pub const fn constant(index: u32, count: u32) -> Self {
        assert!(index >= 1 && index <= count, "a part is from 1 to their number");
        Self { count, index }
    }

    /// Return part `index` of `count`.
    ///
    /// # Errors
    /// `index` is not from 1 to `count`.
    pub fn new(index: u32, count: u32) -> Result<Self> {
        ensure!((1..=count).contains(&index), "{index} is not from 1 to {count}");
        Ok(Self { count, index })
    }

    /// The number of this part, counted from 1.
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of parts.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Return the part of `count` parts that falls to this one, if it is a share: the shares take them in turn. Fewer shares
    /// take as many parts.
    pub fn turn(self, count: u32) -> Self {
        let count = count.min(self.count);
        Self { count, index: (self.index - 1) % count + 1 }
    }

    /// Check if this part falls to a share, where the shares take the parts in turn.
    pub fn falls_to(self, share: Self) -> bool {
        let turn = share.turn(self.count);
        self.turn(turn.count) == turn
    }

    /// Return every part of as many.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (1..=count).map(move |index| Self { count, index })
    }
}

impl FromStr for PartNumber {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (index, count) = text.split_once('/').context("expected K/N, such as 2/8")?;
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("`{text}` is not a number"));
        Self::new(number(index)?, number(count)?)
    }
}

impl fmt::Display for PartNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_take_parts_in_turn() {
        let part = |text: &str| text.parse::<PartNumber>().unwrap();
        for (share, turn) in
            [("1/1", "1/1"), ("2/2", "2/2"), ("3/13", "3/3"), ("4/13", "1/3"), ("13/13", "1/3")]
        {
            assert_eq!(part(share).turn(3), part(turn), "{share}");
        }
        // With any number of shares, each part falls to one of them.
        for (count, of) in [(1, 3), (2, 3), (3, 3), (4, 3), (13, 3), (4, 13), (13, 13)] {
            for part in PartNumber::all(of) {
                assert!(PartNumber::all(count).any(|share| part.falls_to(share)), "{part} of {count} shares");
            }
        }
        assert!(part("2/3").falls_to(part("5/13")) && !part("2/3").falls_to(part("6/13")));
    }

    #[test]
    fn part_is_from_one_to_count() {
        assert_eq!("2/8".parse::<PartNumber>().unwrap().to_string(), "2/8");
        assert_eq!("1/1".parse::<PartNumber>().unwrap(), PartNumber::WHOLE);
        for text in ["0/4", "5/4", "1", "1/x", "-1/2", "1/0"] {
            assert!(text.parse::<PartNumber>().is_err(), "{text}");
        }
    }
}
