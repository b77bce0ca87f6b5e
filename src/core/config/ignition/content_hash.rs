//! Hashes that Ignition configs give of contents: `verification.hash`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// Hash function of a [`ContentHash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HashFunction {
    Sha256,
    Sha512,
}

impl HashFunction {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Hexadecimal digits of a hash.
    fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }

    fn hash(self, bytes: &[u8]) -> String {
        let hash = match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        };
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Hash of contents, spelled `sha512-HEX` or `sha256-HEX`. It is that of the decompressed contents, as in Ignition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentHash {
    function: HashFunction,
    digits: String,
}

/// Contents whose hash is not the one that the config names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the contents have the hash {found}, and not {expected}: correct the hash, or the contents")]
pub struct OtherHash {
    pub expected: ContentHash,
    pub found: ContentHash,
}

impl ContentHash {
    /// Check that these are the contents.
    pub fn verify(&self, contents: &[u8]) -> Result<(), OtherHash> {
        let found = Self { function: self.function, digits: self.function.hash(contents) };
        if found == *self { Ok(()) } else { Err(OtherHash { expected: self.clone(), found }) }
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.function.name(), self.digits)
    }
}

impl FromStr for ContentHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected `sha512-` and 128 hexadecimal digits, or `sha256-` and 64";
        let (name, digits) = text.split_once('-').ok_or(expected)?;
        let function = [HashFunction::Sha256, HashFunction::Sha512].into_iter();
        let function = function.into_iter().find(|function| function.name() == name).ok_or(expected)?;
        if digits.len() != function.digits() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(expected);
        }
        Ok(Self { function, digits: digits.to_ascii_lowercase() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC_256: &str = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const ABC_512: &str = "sha512-ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    #[test]
    fn contents_are_verified_by_either_function() {
        for spelled in [ABC_256, ABC_512] {
            let hash: ContentHash = spelled.parse().unwrap();
            assert_eq!(hash.to_string(), spelled);
            assert_eq!(hash.verify(b"abc"), Ok(()));
            let other = hash.verify(b"abd").unwrap_err();
            assert_eq!(other.expected, hash);
            let text = other.to_string();
            assert!(text.contains(spelled) && text.contains(&other.found.to_string()), "{text}");
        }
        let upper = ABC_256.replace("ba78", "BA78");
        assert_eq!(upper.parse::<ContentHash>().unwrap().to_string(), ABC_256);
    }

    #[test]
    fn other_spellings_are_refused() {
        let short = &ABC_512[..ABC_512.len() - 1];
        let path = format!("sha256-{}", "../".repeat(21) + "a");
        for text in ["", "sha256", "sha256-", "md5-900150983cd24fb0d6963f7d28e17f72", short, &path] {
            assert!(text.parse::<ContentHash>().is_err(), "{text}");
        }
    }
}
