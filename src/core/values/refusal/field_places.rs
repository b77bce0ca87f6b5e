//! Places of fields in the text of a JSON or YAML document.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Parser, Span};

use super::source_excerpt::SourceExcerpt;
use super::{Refusal, TextPlace};

/// Keys of names, which are shown in an excerpt. Any other value could be a secret.
const NAMES: [&str; 7] = ["apiVersion", "extensions", "kernelType", "kind", "name", "path", "version"];
/// Keys of numbers and switches, which are shown if they are as short as a good value: a longer one could be a secret in
/// the wrong place.
const NUMBERS: [&str; 7] = ["enabled", "fips", "hard", "id", "mask", "mode", "overwrite"];
/// Bytes of the longest number or switch, with its quotation marks.
const LONGEST_NUMBER: usize = r#""false""#.len();
/// Section of a MachineConfig that holds the Ignition config. A field of an Ignition config that stands for a
/// MachineConfig is named as if it were in there.
const CARRIER: &str = "spec.config.";
/// Refusals whose fields are looked for. A list that is longer is of a machine's making, and reads the same without.
const LOOKED_FOR: usize = 500;

/// Fields around a missing one that are tried: a hostile document names any number.
const LEVELS: usize = 8;

/// Value of a field in the text.
#[derive(Debug, Clone, Copy)]
struct FieldSpan {
    /// Key of the value; `None` in a list.
    key: Option<Span>,
    value: Span,
    is_scalar: bool,
}

impl FieldSpan {
    /// Return true if the value of `field` can be shown: a scalar that cannot be a secret.
    fn is_shown(&self, field: &str) -> bool {
        let last = field.rsplit('.').next().unwrap_or_default();
        let key = last.split('[').next().unwrap_or_default();
        let is_short = || self.value.byte_range().is_some_and(|range| range.len() <= LONGEST_NUMBER);
        self.is_scalar
            && (NAMES.contains(&key)
                || field.starts_with("spec.kernelArguments[")
                || NUMBERS.contains(&key) && is_short())
    }
}

/// Add to each refusal the place of its field in `text`, or of the nearest field around it.
pub(super) fn locate(refusals: &mut [Refusal], text: &str) {
    let missing = |refusal: &&mut Refusal| refusal.place.is_none() && !refusal.field.is_empty();
    let missing: Vec<&mut Refusal> = refusals.iter_mut().take(LOOKED_FOR).filter(missing).collect();
    if missing.is_empty() {
        return;
    }
    let fields: Vec<String> = missing.iter().map(|refusal| refusal.field.clone()).collect();
    let spans = spans(text, &fields.iter().flat_map(|field| spellings(field)).flat_map(around).collect());
    for (refusal, field) in missing.into_iter().zip(&fields) {
        let found = spellings(field).find_map(|field| {
            around(field).enumerate().find_map(|(up, field)| Some((up, field, spans.get(field)?)))
        });
        let Some((up, field, span)) = found else { continue };
        let value = (up == 0 && span.is_shown(field)).then_some(span.value);
        refusal.place = Some(place(value.or(span.key).unwrap_or(span.value)));
        if up == 0 {
            refusal.excerpt = excerpt(text, span.key, value);
        }
    }
}

/// Return the field as it is named in a MachineConfig and in an Ignition config that stands for one.
fn spellings(field: &str) -> impl Iterator<Item = &str> {
    [Some(field), field.strip_prefix(CARRIER)].into_iter().flatten()
}

/// Iterate over `field` and the fields around it, the nearest first.
fn around(field: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(field), |field| parent(field)).take(LEVELS)
}

/// Return the field that holds `field`.
fn parent(field: &str) -> Option<&str> {
    field.rfind(['.', '[']).and_then(|at| field.get(..at)).filter(|parent| !parent.is_empty())
}

fn place(span: Span) -> TextPlace {
    TextPlace { line: span.start.line() as u64, column: span.start.col() as u64 + 1 }
}

/// Show a key and its value with a mark below the value, or one of them with a mark below it.
fn excerpt(text: &str, key: Option<Span>, value: Option<Span>) -> Option<SourceExcerpt> {
    let marked = value.or(key)?;
    let begins = key.filter(|key| key.start.line() == marked.start.line()).unwrap_or(marked);
    let (begins, range) = (begins.byte_range()?.start, marked.byte_range()?);
    SourceExcerpt::of(text, marked.start.line() as u64, begins..range.end, range)
}

/// Container around the present place.
enum Level {
    /// Length of its path, and the key whose value follows.
    Mapping(usize, Option<Span>),
    /// Length of its path, and the number of the next item.
    Sequence(usize, usize),
}

/// Find `fields` in `text`, as far as its parser understands it.
fn spans(text: &str, fields: &BTreeSet<&str>) -> BTreeMap<String, FieldSpan> {
    let mut found = BTreeMap::new();
    let (mut path, mut levels) = (String::new(), Vec::new());
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        let opened: fn(usize) -> Level = match &event {
            Event::Scalar(key, ..) if matches!(levels.last(), Some(Level::Mapping(_, None))) => {
                let Some(Level::Mapping(length, awaited)) = levels.last_mut() else { break };
                *awaited = Some(span);
                path.truncate(*length);
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                continue;
            }
            // A key that is no text has no name.
            Event::Alias(_) | Event::SequenceStart(..) | Event::MappingStart(..)
                if matches!(levels.last(), Some(Level::Mapping(_, None))) =>
            {
                break;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                levels.pop();
                complete_value(&mut levels);
                continue;
            }
            Event::MappingStart(..) => |length| Level::Mapping(length, None),
            Event::SequenceStart(..) => |length| Level::Sequence(length, 0),
            Event::Scalar(..) | Event::Alias(_) => {
                enter_item(&mut path, &levels);
                note(&mut found, fields, &path, &levels, span, matches!(event, Event::Scalar(..)));
                complete_value(&mut levels);
                continue;
            }
            _ => continue,
        };
        enter_item(&mut path, &levels);
        note(&mut found, fields, &path, &levels, span, false);
        levels.push(opened(path.len()));
    }
    found
}

/// Add the number of the present item to the path of its list.
fn enter_item(path: &mut String, levels: &[Level]) {
    if let Some(Level::Sequence(length, number)) = levels.last() {
        path.truncate(*length);
        path.push_str(&format!("[{number}]"));
    }
}

fn note(
    found: &mut BTreeMap<String, FieldSpan>,
    fields: &BTreeSet<&str>,
    path: &str,
    levels: &[Level],
    value: Span,
    is_scalar: bool,
) {
    // The last one of a duplicate key is the one that is refused.
    if fields.contains(path) {
        let key = if let Some(Level::Mapping(_, key)) = levels.last() { *key } else { None };
        found.insert(path.to_owned(), FieldSpan { key, value, is_scalar });
    }
}

/// Expect the next key or item.
fn complete_value(levels: &mut [Level]) {
    match levels.last_mut() {
        Some(Level::Mapping(_, key)) => *key = None,
        Some(Level::Sequence(_, number)) => *number += 1,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Place and excerpt of a refusal of `field`.
    fn located(text: &str, field: &str) -> (Option<(u64, u64)>, Option<String>) {
        let mut refusals = [Refusal::new(field, "wrong")];
        locate(&mut refusals, text);
        let [Refusal { place, excerpt, .. }] = refusals;
        (place.map(|place| (place.line, place.column)), excerpt.map(|excerpt| excerpt.to_string()))
    }

    const YAML: &str = "\
kind: MachineConfig
spec:
  kernelArgumnets: [nosmt]
  config:
    passwd: {users: [{name: core, passwordHash: secret}]}
    storage:
      files:
      - path: /etc/a
        mode: 99999
      - {path: etc/größe, contents: {source: 'data:,secret'}}
";

    #[test]
    fn field_is_found_with_its_key_and_value() {
        for (field, place, excerpt) in [
            ("kind", (1, 7), "     1 | kind: MachineConfig\n       |       ^^^^^^^^^^^^^"),
            ("spec.kernelArgumnets", (3, 3), "     3 | kernelArgumnets\n       | ^^^^^^^^^^^^^^^"),
            ("spec.config.storage.files[0].mode", (9, 15), "     9 | mode: 99999\n       |       ^^^^^"),
            (
                "spec.config.storage.files[1].path",
                (10, 16),
                "    10 | path: etc/größe\n       |       ^^^^^^^^^",
            ),
        ] {
            assert_eq!(located(YAML, field), (Some(place), Some(excerpt.to_owned())), "{field}");
        }
    }

    #[test]
    fn value_that_could_be_a_secret_is_not_shown() {
        for (field, key) in [
            ("spec.config.passwd.users[0].passwordHash", "passwordHash"),
            ("spec.config.storage.files[1].contents.source", "source"),
            ("spec.config.storage.files[1].contents", "contents"),
        ] {
            let (place, excerpt) = located(YAML, field);
            let excerpt = excerpt.unwrap();
            assert!(place.is_some() && excerpt.contains(key) && !excerpt.contains("secret"), "{excerpt}");
        }
    }

    #[test]
    fn missing_field_is_placed_at_the_nearest_one_around_it() {
        assert_eq!(located(YAML, "spec.config.storage.files[0].contents.source"), (Some((8, 9)), None));
        assert_eq!(located(YAML, "spec.config.ignition.version"), (Some((4, 3)), None));
        assert_eq!(located(YAML, "metadata.name"), (None, None));
    }

    #[test]
    fn json_and_ignition_configs_are_searched_as_well() {
        let json =
            "{\n\t\"kind\": \"Pod\",\n\t\"emoji\": \"\\ud83d\\ude00\\/\", \"spec\": {\"fips\": \"yes\"}}";
        assert_eq!(located(json, "kind").0, Some((2, 10)));
        assert_eq!(located(json, "spec.fips").0, Some((3, 46)));
        let ignition =
            "{\"ignition\": {\"version\": \"3.2.0\"}, \"storage\": {\"files\": [{\"path\": \"a\"}]}}";
        assert_eq!(located(ignition, "spec.config.storage.files[0].path").0, Some((1, 67)));
    }

    #[test]
    fn text_that_no_parser_understands_has_no_places() {
        for text in ["", "{", "? [a]\n: b\n", "a: *b\n", "\u{0}"] {
            assert_eq!(located(text, "a"), (None, None), "{text:?}");
        }
    }
}
