//! Paths and contents of the files that a benchmark writes, the same on every call.

use clap::ValueEnum;

/// The number of directories that the files are spread over.
pub const DIRECTORIES: u32 = 40;
/// Lines of the shortest file, and the lines that the longest has in addition: 0.3 to 2 KiB, as configuration
/// files have.
const FEWEST_LINES: u64 = 8;
const MORE_LINES: u64 = 57;

/// One of two contents of all files. Between the two, the contents of each file differ and its length does
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TreeEdition {
    A,
    B,
}

impl TreeEdition {
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// Return the path of a directory by its number, relative to the tree's root.
pub fn directory(number: u32) -> String {
    format!("etc/bench.d/part-{number:02}")
}

/// Return the path of a file by its number, relative to the tree's root.
pub fn path(index: u32) -> String {
    format!("{}/setting-{index:05}.conf", directory(index % DIRECTORIES))
}

/// Generate the contents of a file: lines of text that gzip roughly halves.
pub fn contents(index: u32, edition: TreeEdition) -> String {
    let lines = FEWEST_LINES + mixed(u64::from(index)) % MORE_LINES;
    let seed = u64::from(index) << 32 | (edition as u64) << 31;
    let line = |number| format!("setting-{number:03} = {:016x}\n", mixed(seed | number));
    (0..lines).map(line).collect::<Vec<_>>().concat()
}

/// Hash a number (the finalizer of Splitmix64): the result looks random and is the same in each run.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn editions_differ_in_contents_and_not_in_length() {
        for index in 0..500 {
            let [a, b] = [TreeEdition::A, TreeEdition::B].map(|edition| contents(index, edition));
            assert_ne!(a, b);
            assert_eq!(a.len(), b.len());
            assert_eq!(a, contents(index, TreeEdition::A));
        }
    }

    #[test]
    fn paths_are_distinct_and_fill_every_directory() {
        let paths: HashSet<_> = (0..1000).map(path).collect();
        assert_eq!(paths.len(), 1000);
        for number in 0..DIRECTORIES {
            let within = format!("{}/", directory(number));
            assert_eq!(paths.iter().filter(|path| path.starts_with(&within)).count(), 25);
        }
    }

    #[test]
    fn sizes_are_those_of_configuration_files() {
        let sizes: Vec<_> = (0..1000).map(|index| contents(index, TreeEdition::B).len()).collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((900..1400).contains(&mean), "{mean}");
        assert!(sizes.iter().all(|size| (248..=1984).contains(size)));
    }
}
