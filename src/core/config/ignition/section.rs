//! Deserializer of a section of a document that takes objects for objects only. Derived types also take an array, whose
//! elements are the fields in the order of their declaration: `spec: []` would be an empty spec, and remove all that is
//! managed.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

/// Section of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct DocumentSection<'a>(pub(super) &'a Value);

impl<'de> IntoDeserializer<'de, Error> for DocumentSection<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for DocumentSection<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(DocumentSection));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| (key.as_str(), DocumentSection(value)));
                let mut members = MapDeserializer::new(members);
                let value = visitor.visit_map(&mut members)?;
                members.end()?;
                Ok(value)
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(_) => self.deserialize_any(visitor),
            other => Err(Error::invalid_type(unexpected(other), &"an object")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// Describe the value without its contents, which may be secret.
fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(_) => Unexpected::Other("string"),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(default)]
    struct Outer {
        name: String,
        inner: Option<Inner>,
        items: Vec<Inner>,
    }

    impl Default for Outer {
        fn default() -> Self {
            Self { name: "default".to_owned(), inner: None, items: Vec::new() }
        }
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Inner {
        id: i64,
    }

    fn parsed(value: &Value) -> Result<Outer, String> {
        Outer::deserialize(DocumentSection(value)).map_err(|error| error.to_string())
    }

    #[test]
    fn objects_are_taken_for_objects_only() {
        let outer = Outer { name: "a".into(), inner: Some(Inner { id: 1 }), items: vec![Inner { id: 2 }] };
        let value = json!({"name": "a", "inner": {"id": 1}, "items": [{"id": 2}], "other": [[{}]]});
        assert_eq!(parsed(&value).unwrap(), outer);
        assert_eq!(parsed(&json!({"inner": null})).unwrap(), Outer::default());
        for (value, found) in [
            (json!([]), "sequence"),
            (json!(["a", {"id": 1}]), "sequence"),
            (json!({"inner": [1]}), "sequence"),
            (json!({"items": [[1]]}), "sequence"),
            (json!({"inner": "secret"}), "string"),
            (json!(null), "null"),
        ] {
            let error = parsed(&value).unwrap_err();
            assert_eq!(error, format!("invalid type: {found}, expected an object"), "{value}");
        }
    }
}
