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
    fn part_is_from_one_to_count() {
        assert_eq!("2/8".parse::<PartNumber>().unwrap().to_string(), "2/8");
        assert_eq!("1/1".parse::<PartNumber>().unwrap(), PartNumber::WHOLE);
        for text in ["0/4", "5/4", "1", "1/x", "-1/2", "1/0"] {
            assert!(text.parse::<PartNumber>().is_err(), "{text}");
        }
    }
}
