//! Documents that the agent writes for itself: one line of JSON that says which release's schema it has.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Why one cannot be used.
#[derive(Debug)]
pub(crate) enum DocumentError {
    /// It does not parse.
    Malformed(serde_json::Error),
    /// Another release's.
    Schema(u32),
}

/// The document as it is stored.
pub(crate) fn render(document: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(document).expect("a document of ours has only string keys");
    text.push(b'\n');
    text
}

/// Reads one of this `schema`: what another release means by a name is not guessed.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], schema: u32) -> Result<T, DocumentError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let found: Version = serde_json::from_slice(bytes).map_err(DocumentError::Malformed)?;
    if found.schema != schema {
        return Err(DocumentError::Schema(found.schema));
    }
    serde_json::from_slice(bytes).map_err(DocumentError::Malformed)
}
