//! Strict parsing of a JSON or YAML document into a value tree: a duplicate key is refused with its path.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;

use crate::core::values::causes::without_place;
use crate::core::values::limits;
use crate::core::values::refusal::{Refusal, RefusalList, TextPlace};

/// Characters that a refusal shows of a key above the limit.
const SHOWN: usize = 40;

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
    let findings = Findings::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = Strict(&findings)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| {
            let place = TextPlace { line: error.line() as u64, column: error.column() as u64 };
            RefusalList::at(Some(place), format!("not valid JSON: {}", without_place(&error)))
        });
    findings.refuse_or(parsed)
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
    let findings = Findings::default();
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Strict(&findings).deserialize(yaml)
    })
    .map_err(|error| invalid_yaml(&error));
    findings.refuse_or(parsed)
}

/// Describe an error of the YAML parser in words that do not speak of its options.
fn invalid_yaml(error: &serde_saphyr::Error) -> RefusalList {
    let place = error.location().map(|at| TextPlace { line: at.line(), column: at.column() });
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_ref().map(|key| format!(" `{key}`")).unwrap_or_default();
        return RefusalList::at(place, format!("duplicate key{key}"));
    }
    if let serde_saphyr::Error::Budget { breach, .. } = error {
        return RefusalList::at(place, beyond(breach));
    }
    let text = error.to_string();
    let suffix = place.map(|at| format!(" at line {}, column {}", at.line, at.column)).unwrap_or_default();
    RefusalList::at(place, format!("not valid YAML: {}", text.trim_end_matches(&suffix)))
}

/// Describe a document that has more of something than is read.
fn beyond(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Documents { .. } => {
            "the file has more than one YAML document; put each into a file of its own".to_owned()
        }
        BudgetBreach::Depth { depth } => {
            format!("the document is nested more than {} levels deep", depth - 1)
        }
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            format!("the document has more than {} values", limits::YAML_NODES)
        }
        other => format!("the document has too much of something for a config: {other:?}"),
    }
}

/// Step from a value to one in it.
enum PathStep {
    Key(String),
    Index(usize),
}

/// Place in the document, and the refusals so far. The place is kept once for all levels, and is spelled out
/// for a refusal only: a hostile document has long keys at every level.
#[derive(Default)]
struct Findings {
    steps: RefCell<Vec<PathStep>>,
    refusals: RefCell<Vec<Refusal>>,
    path_bytes: Cell<usize>,
    values: Cell<usize>,
    is_stopped: Cell<bool>,
}

impl Findings {
    fn enter(&self, step: PathStep) {
        self.steps.borrow_mut().push(step);
    }

    fn leave(&self) {
        self.steps.borrow_mut().pop();
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.borrow().iter() {
            match step {
                PathStep::Key(key) => {
                    let dot = if path.is_empty() { "" } else { "." };
                    path.push_str(dot);
                    path.push_str(key);
                }
                PathStep::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// Refuse the value at the present place; an error if the list of refusals is full.
    fn refuse<E: Error>(&self, reason: &str) -> Result<(), E> {
        let path = self.path();
        self.path_bytes.set(self.path_bytes.get() + path.len());
        self.refusals.borrow_mut().push(Refusal::new(path, reason));
        if self.path_bytes.get() > limits::REFUSED_PATH_BYTES {
            return Err(self.stop(Refusal::new("", "more problems may follow: the list ends here")));
        }
        Ok(())
    }

    /// Refuse a key that is longer than the limit. The rest of the document is not read.
    fn refuse_key<E: Error>(&self, key: &str) -> E {
        let beginning: String = key.chars().take(SHOWN).collect();
        let reason = format!(
            "a key has {} bytes and begins with {beginning:?}; the limit is {}",
            key.len(),
            limits::KEY_BYTES
        );
        self.stop(Refusal::new(self.path(), reason))
    }

    /// Count a value, and refuse one beyond the limit. The rest of the document is not read.
    fn count<E: Error>(&self) -> Result<(), E> {
        self.values.set(self.values.get() + 1);
        if self.values.get() <= limits::JSON_VALUES {
            return Ok(());
        }
        let reason = format!("the document has more than {} values", limits::JSON_VALUES);
        Err(self.stop(Refusal::new("", reason)))
    }

    fn stop<E: Error>(&self, last: Refusal) -> E {
        self.refusals.borrow_mut().push(last);
        self.is_stopped.set(true);
        E::custom("the document is refused")
    }

    /// Return the value if nothing was refused. A syntax error is the only refusal, because the parser may
    /// have been wrong about the places before it.
    fn refuse_or(self, parsed: Result<Value, RefusalList>) -> Result<Value, RefusalList> {
        match parsed {
            Err(error) if !self.is_stopped.get() => Err(error),
            parsed => RefusalList::or(self.refusals.into_inner(), parsed.unwrap_or_default()),
        }
    }
}

/// Builds a [`Value`] and collects duplicate keys with their paths.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Findings);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.count()?;
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

    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
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
        loop {
            self.0.enter(PathStep::Index(items.len()));
            let item = seq.next_element_seed(self)?;
            self.0.leave();
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key.len() > limits::KEY_BYTES {
                return Err(self.0.refuse_key(&key));
            }
            self.0.enter(PathStep::Key(key.clone()));
            let value = map.next_value_seed(self)?;
            if object.insert(key, value).is_some() {
                self.0.refuse("duplicate key")?;
            }
            self.0.leave();
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(document: &str) -> Vec<String> {
        let refused = parse(document.as_bytes()).unwrap_err();
        refused.as_slice().iter().map(|refusal| refusal.field.clone()).collect()
    }

    #[test]
    fn duplicate_keys_are_named_by_their_paths() {
        let json =
            r#"{"a": 1, "b": [0, {"c": {"d": 1, "d": 2}}, {"e": 1, "e": 1}], "a": [[{"f": 1, "f": 1}]]}"#;
        assert_eq!(fields(json), ["b[1].c.d", "b[2].e", "a[0][0].f", "a"]);
        assert_eq!(fields("[{\"a\": 1, \"a\": 2}]"), ["[0].a"]);
    }

    #[test]
    fn value_after_a_nested_one_has_its_own_path() {
        assert_eq!(fields(r#"{"a": {"b": [1, 2]}, "c": 1, "c": 2}"#), ["c"]);
    }

    #[test]
    fn key_above_the_limit_is_refused_by_its_place_and_beginning() {
        let most = "k".repeat(limits::KEY_BYTES);
        assert!(parse(format!("{{\"{most}\": 1}}").as_bytes()).is_ok());
        for document in [
            format!("{{\"spec\": {{\"x\": [{{\"{most}k\": 1}}]}}}}"),
            format!("spec:\n  x:\n  - ? {most}k\n    : 1\n"),
        ] {
            let refused = parse(document.as_bytes()).unwrap_err().to_string();
            let beginning = "k".repeat(SHOWN);
            let expected =
                format!("spec.x[0]: a key has 4097 bytes and begins with \"{beginning}\"; the limit is 4096");
            assert_eq!(refused, expected);
        }
    }

    #[test]
    fn values_above_the_limit_are_refused() {
        // Besides the numbers, the array is a value.
        let document = |numbers| format!("[{}0]", "0,".repeat(numbers - 1));
        assert!(parse(document(limits::JSON_VALUES - 1).as_bytes()).is_ok());
        let refused = parse(document(limits::JSON_VALUES).as_bytes()).unwrap_err().to_string();
        assert_eq!(refused, "the document has more than 240000 values");
    }

    #[test]
    fn list_of_refusals_with_long_paths_ends() {
        let key = "k".repeat(limits::KEY_BYTES);
        let duplicates = "\"a\":1,".repeat(10_000);
        let refused = parse(format!("{{\"{key}\":{{{duplicates}\"a\":1}}}}").as_bytes()).unwrap_err();
        let bytes: usize = refused.as_slice().iter().map(|refusal| refusal.field.len()).sum();
        assert!(bytes <= limits::REFUSED_PATH_BYTES + 2 * limits::KEY_BYTES, "{bytes}");
        assert_eq!(refused.as_slice().last().unwrap().field, "");
    }
}
