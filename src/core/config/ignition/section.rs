//! Section of a document, as the types of configs are read from it. Each value knows its place: an error has one, and so has each
//! key that no type reads.
//!
//! Objects are taken for objects only. Derived types also take an array, whose elements are the fields in the order of their
//! declaration: `spec: []` would be an empty spec, and remove all that is managed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

/// Reason for which a section cannot be read, with the path of the value.
#[derive(Debug)]
pub(super) struct SectionError {
    pub(super) field: String,
    pub(super) error: Error,
}

/// Read the section at `field` of a document. Keys that were not read are returned by path.
pub(super) fn read<T: DeserializeOwned>(
    value: &Value,
    field: &str,
) -> Result<(T, BTreeSet<String>), SectionError> {
    let findings = SectionFindings::default();
    let place = SectionPlace::Top(field);
    match T::deserialize(DocumentSection { value, place: &place, findings: &findings }) {
        Ok(read) => Ok((read, findings.unused.into_inner())),
        Err(error) => {
            let failed = findings.failed.into_inner();
            Err(SectionError { field: failed.unwrap_or_else(|| field.to_owned()), error })
        }
    }
}

/// Copy the section at `field` without the members at these paths.
pub(super) fn without(value: &Value, field: &str, unused: &BTreeSet<String>) -> Value {
    copied(value, &SectionPlace::Top(field), unused)
}

fn copied(value: &Value, place: &SectionPlace<'_>, unused: &BTreeSet<String>) -> Value {
    match value {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| copied(item, &SectionPlace::Item(place, index), unused)).collect()
        }
        Value::Object(members) => {
            let kept = members.iter().filter_map(|(key, member)| {
                let place = SectionPlace::Member(place, key);
                let is_unused = unused.contains(&place.to_string());
                (!is_unused).then(|| (key.clone(), copied(member, &place, unused)))
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        scalar => scalar.clone(),
    }
}

/// Place of a value in its document.
#[derive(Debug, Clone, Copy)]
enum SectionPlace<'a> {
    /// The section itself, by its path.
    Top(&'a str),
    Member(&'a SectionPlace<'a>, &'a str),
    Item(&'a SectionPlace<'a>, usize),
}

impl fmt::Display for SectionPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(field) => f.write_str(field),
            Self::Member(Self::Top(""), key) => f.write_str(key),
            Self::Member(above, key) => write!(f, "{above}.{key}"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// Paths that were found while a section was read.
#[derive(Debug, Default)]
struct SectionFindings {
    unused: RefCell<BTreeSet<String>>,
    /// The innermost value with an error.
    failed: RefCell<Option<String>>,
}

impl SectionFindings {
    fn failed_at(&self, place: &SectionPlace<'_>) {
        self.failed.borrow_mut().get_or_insert_with(|| place.to_string());
    }
}

#[derive(Debug, Clone, Copy)]
struct DocumentSection<'de, 'a> {
    value: &'de Value,
    place: &'a SectionPlace<'a>,
    findings: &'a SectionFindings,
}

impl<'de> DocumentSection<'de, '_> {
    /// Read a value below this one.
    fn below<S: DeserializeSeed<'de>>(
        self,
        value: &'de Value,
        place: &SectionPlace<'_>,
        seed: S,
    ) -> Result<S::Value, Error> {
        let read = seed.deserialize(DocumentSection { value, place, findings: self.findings });
        read.inspect_err(|_| self.findings.failed_at(place))
    }
}

/// Members of an object that are still to be read.
struct SectionMembers<'de, 'a> {
    section: DocumentSection<'de, 'a>,
    members: serde_json::map::Iter<'de>,
    next: Option<(&'de str, &'de Value)>,
}

impl<'de> MapAccess<'de> for SectionMembers<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next = self.members.next().map(|(key, value)| (key.as_str(), value));
        let key = self.next.map(|(key, _)| seed.deserialize(BorrowedStrDeserializer::new(key)));
        key.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (key, value) = self.next.take().ok_or_else(|| Error::custom("a value is read before its key"))?;
        self.section.below(value, &SectionPlace::Member(self.section.place, key), seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.members.len())
    }
}

/// Items of an array that are still to be read.
struct SectionItems<'de, 'a> {
    section: DocumentSection<'de, 'a>,
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
}

impl<'de> SeqAccess<'de> for SectionItems<'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        self.section.below(value, &SectionPlace::Item(self.section.place, index), seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

impl<'de> Deserializer<'de> for DocumentSection<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) => {
                visitor.visit_seq(SectionItems { section: self, items: items.iter().enumerate() })
            }
            Value::Object(members) => {
                visitor.visit_map(SectionMembers { section: self, members: members.iter(), next: None })
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
        match self.value {
            Value::Object(_) => self.deserialize_any(visitor),
            other => Err(Error::invalid_type(unexpected(other), &"an object")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
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
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.findings.unused.borrow_mut().insert(self.place.to_string());
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// Describe the value without its contents, which may be secret.
fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Other("null"),
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(_) => Unexpected::Other("string"),
        Value::Array(_) => Unexpected::Other("array"),
        Value::Object(_) => Unexpected::Other("object"),
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

    fn refused(value: &Value) -> String {
        let SectionError { field, error } = read::<Outer>(value, "spec").unwrap_err();
        format!("{field}: {error}")
    }

    #[test]
    fn objects_are_taken_for_objects_only() {
        for (value, expected) in [
            (json!([]), "spec: invalid type: array"),
            (json!(["a", {"id": 1}]), "spec: invalid type: array"),
            (json!({"inner": [1]}), "spec.inner: invalid type: array"),
            (json!({"items": [{"id": 1}, [1]]}), "spec.items[1]: invalid type: array"),
            (json!({"inner": "secret"}), "spec.inner: invalid type: string"),
            (json!(null), "spec: invalid type: null"),
        ] {
            assert_eq!(refused(&value), format!("{expected}, expected an object"), "{value}");
        }
    }

    #[test]
    fn errors_and_unused_keys_have_their_places() {
        assert_eq!(read::<Outer>(&json!({"inner": null}), "").unwrap(), (Outer::default(), BTreeSet::new()));
        assert_eq!(refused(&json!({"items": [{}]})), "spec.items[0]: missing field `id`");
        let wrong = refused(&json!({"items": [{"id": 1}, {"id": "x"}], "inner": {"id": 1.5}}));
        assert!(wrong.starts_with("spec.inner.id: invalid type") || wrong.starts_with("spec.items[1].id: "));
        let value =
            json!({"name": "a", "inner": {"id": 1, "x": 1}, "items": [{"id": 2, "y.z": [{}]}], "w": {}});
        let outer = Outer { name: "a".into(), inner: Some(Inner { id: 1 }), items: vec![Inner { id: 2 }] };
        let unused = ["inner.x", "items[0].y.z", "w"].map(str::to_owned);
        assert_eq!(read::<Outer>(&value, "").unwrap(), (outer, unused.clone().into()));
        let rest = json!({"name": "a", "inner": {"id": 1}, "items": [{"id": 2}]});
        assert_eq!(without(&value, "", &unused.into()), rest);
    }
}
