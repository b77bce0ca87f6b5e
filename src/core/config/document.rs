//! Strict parsing of a JSON or YAML document into a value tree: a duplicate key is refused with its path.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::core::values::limits;
use crate::core::values::refusal::{Refusal, RefusalList};

/// Parse one document: JSON if it begins with `{` or `[`, else YAML.
pub fn parse(bytes: &[u8]) -> Result<Value, RefusalList> {
    if bytes.len() > limits::DOCUMENT_BYTES {
        return Err(RefusalList::one(
            "",
            format!("the document has {} bytes; the limit is {}", bytes.len(), limits::DOCUMENT_BYTES),
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| RefusalList::one("", format!("the document is not UTF-8: {error}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.trim_start().chars().next() {
        None => Err(RefusalList::one("", "the document is empty")),
        Some('{' | '[') => parse_json(text),
        Some(_) => parse_yaml(text),
    }
}

fn parse_json(text: &str) -> Result<Value, RefusalList> {
    let duplicates = Duplicates::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict::root(&duplicates)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| RefusalList::one("", format!("not valid JSON: {error}")))?;
    duplicates.refuse_or(value)
}

fn parse_yaml(text: &str) -> Result<Value, RefusalList> {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_nodes = limits::YAML_NODES;
    budget.max_events = limits::YAML_NODES;
    budget.max_documents = 1;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.with_snippet = false;
    // Kubernetes tools read YAML 1.1, where `0644` is octal.
    options.legacy_octal_numbers = true;
    let duplicates = Duplicates::default();
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Strict::root(&duplicates).deserialize(yaml)
    })
    .map_err(|error| RefusalList::one("", format!("not valid YAML: {error}")))?;
    duplicates.refuse_or(value)
}

#[derive(Default)]
struct Duplicates(std::cell::RefCell<Vec<Refusal>>);

impl Duplicates {
    fn refuse_or(self, value: Value) -> Result<Value, RefusalList> {
        RefusalList::or(self.0.into_inner(), value)
    }
}

/// Builds a [`Value`] and collects duplicate keys with their paths.
struct Strict<'a> {
    duplicates: &'a Duplicates,
    path: String,
}

impl<'a> Strict<'a> {
    fn root(duplicates: &'a Duplicates) -> Self {
        Self { duplicates, path: String::new() }
    }

    fn key(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { duplicates: self.duplicates, path: format!("{}{dot}{key}", self.path) }
    }

    fn index(&self, index: usize) -> Self {
        Self { duplicates: self.duplicates, path: format!("{}[{index}]", self.path) }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        self.deserialize(d)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.index(items.len()))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let field = self.key(&key);
            let path = field.path.clone();
            let value = map.next_value_seed(field)?;
            if object.insert(key, value).is_some() {
                let mut found = self.duplicates.0.borrow_mut();
                found.push(Refusal::new(path, "duplicate key"));
            }
        }
        Ok(Value::Object(object))
    }
}
