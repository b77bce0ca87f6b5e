//! The agent's own documents: one line of JSON with the number of its schema.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The reason why a document cannot be used.
#[derive(Debug)]
pub(crate) enum DocumentError {
    /// The bytes are not JSON of the expected shape.
    Malformed(serde_json::Error),
    /// The document has this schema, which belongs to another release.
    Schema(u32),
}

/// Render a document as it is stored.
pub(crate) fn render(document: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(document).expect("the agent's documents have only string keys");
    text.push(b'\n');
    text
}

/// Parse a document of exactly this `schema`. Another release may give a member another meaning, so its
/// documents are not interpreted.
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
