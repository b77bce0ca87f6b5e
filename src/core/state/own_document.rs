//! The agent's own documents: one line of JSON with the number of its schema. A release reads every schema up to its own:
//! an older document is upgraded step by step. One of a newer release is never interpreted, since that may have given a
//! member another meaning.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Upgrade of a document by one schema. It need not change the number of the schema.
pub(crate) type UpgradeStep = fn(Value) -> Value;

/// Difference between this release and the next one in every document. The feature `next-schema` builds an executable that
/// stands for the next release, so that tests can upgrade and downgrade a host.
pub(crate) mod next_schema {
    use super::UpgradeStep;

    /// Added to the number of every schema.
    pub(crate) const OFFSET: u32 = cfg!(feature = "next-schema") as u32;

    /// Steps from this release's schemas to the next ones.
    pub(crate) const UPGRADES: &[UpgradeStep] =
        if cfg!(feature = "next-schema") { &[add_member] } else { &[] };

    fn add_member(mut document: serde_json::Value) -> serde_json::Value {
        if let Some(members) = document.as_object_mut() {
            members.insert("next".to_owned(), true.into());
        }
        document
    }
}

/// The reason why a document cannot be used.
#[derive(Debug)]
pub(crate) enum DocumentError {
    /// The bytes are not JSON of the expected shape: damaged, or with a value that only a newer release knows.
    Malformed(serde_json::Error),
    /// The document has this schema, which belongs to a newer release, or to none.
    Schema(u32),
}

/// Render a document as it is stored.
pub(crate) fn render(document: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(document).expect("the agent's documents have only string keys");
    text.push(b'\n');
    text
}

/// Parse a document of `schema` or an older one. The first of `steps` turns schema 1 into schema 2, and so on.
pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    schema: u32,
    steps: &[UpgradeStep],
) -> Result<T, DocumentError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let found: Version = serde_json::from_slice(bytes).map_err(DocumentError::Malformed)?;
    if found.schema == schema {
        return serde_json::from_slice(bytes).map_err(DocumentError::Malformed);
    }
    let value: Value = serde_json::from_slice(bytes).map_err(DocumentError::Malformed)?;
    let upgraded = upgrade(value, found.schema, schema, steps).ok_or(DocumentError::Schema(found.schema))?;
    serde_json::from_value(upgraded).map_err(DocumentError::Malformed)
}

/// Parse a document that is a member of another one. Each keeps the number of its own schema.
pub(crate) fn parse_member<'d, T: DeserializeOwned, D: Deserializer<'d>>(
    member: D,
    schema: u32,
    steps: &[UpgradeStep],
) -> Result<T, D::Error> {
    let value = Value::deserialize(member)?;
    match parse(value.to_string().as_bytes(), schema, steps) {
        Ok(document) => Ok(document),
        Err(DocumentError::Malformed(source)) => Err(D::Error::custom(source)),
        Err(DocumentError::Schema(newer)) => Err(D::Error::custom(format!(
            "a member has schema {newer}, and this release reads up to {schema}"
        ))),
    }
}

/// Upgrade `value` from schema `from` to schema `to`; `None` if there is no way.
pub(crate) fn upgrade(value: Value, from: u32, to: u32, steps: &[UpgradeStep]) -> Option<Value> {
    let done = usize::try_from(from.checked_sub(1)?).ok()?;
    if from > to {
        return None;
    }
    let mut upgraded = steps.iter().skip(done).fold(value, |value, step| step(value));
    if let Some(schema) = upgraded.get_mut("schema") {
        *schema = to.into();
    }
    Some(upgraded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Document {
        schema: u32,
        name: String,
        count: u32,
    }

    /// Schema 1 had no name, and schema 2 no count.
    const UPGRADES: [UpgradeStep; 2] = [
        |mut value| {
            value["name"] = "unnamed".into();
            value
        },
        |mut value| {
            value["count"] = 7.into();
            value
        },
    ];

    fn read(text: &str) -> Result<Document, DocumentError> {
        parse(text.as_bytes(), 3, &UPGRADES)
    }

    #[test]
    fn older_documents_are_upgraded_step_by_step() {
        let document = |name: &str, count| Document { schema: 3, name: name.to_owned(), count };
        assert_eq!(read(r#"{"schema":1}"#).unwrap(), document("unnamed", 7));
        assert_eq!(read(r#"{"schema":2,"name":"a"}"#).unwrap(), document("a", 7));
        assert_eq!(read(r#"{"schema":3,"name":"a","count":1}"#).unwrap(), document("a", 1));
    }

    #[test]
    fn newer_and_unknown_schemas_are_not_interpreted() {
        for (text, schema) in [(r#"{"schema":4,"name":"a","count":1}"#, 4), (r#"{"schema":0}"#, 0)] {
            assert!(matches!(read(text), Err(DocumentError::Schema(found)) if found == schema), "{text}");
        }
    }
}
