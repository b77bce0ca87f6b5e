//! The line format of append-only logs, `CHECKSUM JSON`: a power cut may end such a file anywhere, and the
//! reader still finds the last complete line.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::state::own_document;
use crate::core::state::own_document::UpgradeStep;
use crate::core::values::tree::ContentDigest;

/// Length of a line's checksum: the first 64 bits of SHA-256 in hex. The checksum detects damage, not
/// tampering: a process that can write this file can write any other.
const CHECKSUM_LENGTH: usize = 16;

/// Render `value` as one line with its checksum.
#[must_use]
pub fn render(value: &impl Serialize) -> Vec<u8> {
    sealed(&serde_json::to_vec(value).expect("a log entry has only string keys"))
}

/// Return `json` as one line with its checksum.
#[must_use]
pub fn sealed(json: &[u8]) -> Vec<u8> {
    [checksum(json).as_bytes(), b" ", json, b"\n"].concat()
}

/// Iterate over the JSON of all complete lines; `None` stands for a line with a wrong checksum. A last line
/// without a newline was cut off and is left out.
pub fn whole(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let (whole, _cut_off) = bytes.split_at(whole_length(bytes));
    whole.split_inclusive(|byte| *byte == b'\n').map(checked)
}

/// The reason why the first line of a log cannot be used.
#[derive(Debug)]
pub(crate) enum FirstLineError {
    /// The line does not have the expected shape.
    Unknown(serde_json::Error),
    /// The format has this version, which belongs to a newer release, or to none.
    Version(u32),
}

/// Read the first line of a log, with the version of its format. An older one is upgraded step by step, as an
/// [`own_document`] is.
pub(crate) fn first_line<T: DeserializeOwned>(
    first: &[u8],
    version: u32,
    steps: &[UpgradeStep],
) -> Result<T, FirstLineError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version: found } = serde_json::from_slice(first).map_err(FirstLineError::Unknown)?;
    if found == version {
        return serde_json::from_slice(first).map_err(FirstLineError::Unknown);
    }
    let line: Value = serde_json::from_slice(first).map_err(FirstLineError::Unknown)?;
    let upgraded =
        own_document::upgrade(line, found, version, steps).ok_or(FirstLineError::Version(found))?;
    serde_json::from_value(upgraded).map_err(FirstLineError::Unknown)
}

/// The length of the log up to and including its last newline.
#[must_use]
pub fn whole_length(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

fn checked(line: &[u8]) -> Option<&[u8]> {
    let (sum, json) = line.split_at_checked(CHECKSUM_LENGTH)?;
    let json = json.strip_prefix(b" ")?.strip_suffix(b"\n")?;
    (checksum(json).as_bytes() == sum).then_some(json)
}

fn checksum(json: &[u8]) -> String {
    let digest = ContentDigest::of(json).to_string();
    digest.trim_start_matches("sha256:").chars().take(CHECKSUM_LENGTH).collect()
}
