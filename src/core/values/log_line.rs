//! The lines of a log that a power cut may end anywhere: `CHECKSUM JSON`, each on a line of its own.

use serde::{Deserialize, Serialize};

use super::tree::ContentDigest;

/// Characters of a line's checksum: the first 64 bits of SHA-256, in hex. It tells damage apart,
/// not malice: who can write here can write anywhere.
const CHECKSUM_LENGTH: usize = 16;

/// The line that says `value`.
#[must_use]
pub fn render(value: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_string(value).expect("what is logged has only string keys");
    format!("{} {json}\n", checksum(json.as_bytes())).into_bytes()
}

/// What the lines of a log say; `None` for one that does not check out. A last line without its end
/// was never written.
pub fn whole(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let (whole, _cut_off) = bytes.split_at(whole_length(bytes));
    whole.split_inclusive(|byte| *byte == b'\n').map(checked)
}

/// Which version of its format the first line of a log says it has.
pub fn version(first: &[u8]) -> Result<u32, serde_json::Error> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    serde_json::from_slice(first).map(|Version { version }| version)
}

/// How many bytes of a log end with a line's end.
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
