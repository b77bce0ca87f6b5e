//! Messages in a form in which a recorded and a live one can be compared.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use zbus::message::{Message, Type};
use zbus::zvariant::{OwnedValue, Structure, StructureBuilder, Value};

/// Line of a recording.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Line {
    pub(super) link: String,
    /// `connected` or `closed`; `killed` or `exited` for the daemon's process. Otherwise the line is a message.
    pub(super) event: Option<String>,
    #[serde(default)]
    pub(super) from: String,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    /// Bus name of the client.
    #[serde(default)]
    pub(super) sender: Option<String>,
    #[serde(default)]
    pub(super) serial: u32,
    #[serde(default)]
    pub(super) reply_to: u32,
    #[serde(default)]
    pub(super) path: String,
    #[serde(default)]
    pub(super) interface: String,
    #[serde(default)]
    pub(super) member: String,
    #[serde(default)]
    pub(super) signature: String,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) args: Option<Vec<Json>>,
}

/// Compared parts of a message: member or error name, signature, and texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparable {
    pub(super) name: String,
    pub(super) signature: String,
    pub(super) texts: Vec<String>,
}

impl Comparable {
    pub(super) fn of_recording(line: &Line, references: &HashMap<String, String>) -> Self {
        let mut texts = Vec::new();
        line.args.iter().flatten().for_each(|value| collect_json(value, &mut texts));
        Self {
            name: line.error.clone().unwrap_or_else(|| line.member.clone()),
            signature: line.signature.clone(),
            texts: texts.iter().map(|text| normalized(text, references.keys())).collect(),
        }
    }

    /// `has_texts` is false where a recording has the signature alone.
    pub(super) fn of_message(
        message: &Message,
        has_texts: bool,
        references: &HashMap<String, String>,
    ) -> Self {
        let (header, body) = (message.header(), message.body());
        let member = header.member().map(ToString::to_string);
        let name = match message.message_type() {
            Type::Error => header.error_name().map(ToString::to_string),
            Type::MethodReturn => None,
            _ => member,
        };
        let signature = body.signature().to_string_no_parens();
        let mut texts = Vec::new();
        if has_texts && !signature.is_empty() {
            let fields: Structure<'_> = body.deserialize().unwrap();
            fields.fields().iter().for_each(|value| collect(value, &mut texts));
        }
        Self {
            name: name.unwrap_or_default(),
            signature,
            texts: texts.iter().map(|text| normalized(text, references.values())).collect(),
        }
    }
}

/// Collect texts, truth values and numbers, depth first; of changed properties with deployments, the names alone.
fn collect_json(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::Null => {}
        Json::Bool(value) => texts.push(value.to_string()),
        Json::Number(value) => texts.push(value.to_string()),
        Json::String(value) => texts.push(value.clone()),
        Json::Array(values) => values.iter().for_each(|value| collect_json(value, texts)),
        Json::Object(members) if is_variant(members) => collect_json(&members["v"], texts),
        Json::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            for (name, value) in sorted {
                texts.push(name.clone());
                collect_json(value, texts);
            }
        }
    }
}

fn is_variant(members: &Map<String, Json>) -> bool {
    members.len() == 2 && members.contains_key("sig") && members.contains_key("v")
}

/// Properties whose values are whole deployments.
const DEPLOYMENTS: [&str; 2] = ["Deployments", "DefaultDeployment"];

fn collect(value: &Value<'_>, texts: &mut Vec<String>) {
    match value {
        Value::Bool(value) => texts.push(value.to_string()),
        Value::U32(value) => texts.push(value.to_string()),
        Value::Str(value) => texts.push(value.to_string()),
        Value::ObjectPath(value) => texts.push(value.to_string()),
        Value::Value(value) => collect(value, texts),
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        Value::Structure(fields) => fields.fields().iter().for_each(|value| collect(value, texts)),
        Value::Dict(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| name.to_string());
            for (name, value) in sorted {
                collect(name, texts);
                let is_whole = matches!(name, Value::Str(name) if DEPLOYMENTS.contains(&name.as_str()));
                if !is_whole {
                    collect(value, texts);
                }
            }
        }
        other => panic!("unexpected value {other:?}"),
    }
}

/// Replace what differs between two runs: image references, digests, numbers, sizes, paths of sockets.
fn normalized<'r>(text: &str, references: impl Iterator<Item = &'r String>) -> String {
    let mut references: Vec<_> = references.collect();
    references.sort_by_key(|reference| std::cmp::Reverse(reference.len()));
    let text = references
        .into_iter()
        .fold(text.to_owned(), |text, reference| text.replace(reference.as_str(), "IMAGE"));
    if text.starts_with("unix:path=") {
        return "unix:path=".to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for character in text.chars() {
        let is_part = character.is_ascii_alphanumeric() || character == '.';
        match words.last_mut() {
            Some(word)
                if is_part && word.chars().all(|other| other.is_ascii_alphanumeric() || other == '.') =>
            {
                word.push(character);
            }
            _ => words.push(character.to_string()),
        }
    }
    words.iter().map(|word| placeholder(word)).collect()
}

fn placeholder(word: &str) -> &str {
    let is_hex =
        word.len() >= 7 && word.chars().all(|digit| digit.is_ascii_hexdigit() && !digit.is_uppercase());
    match word {
        _ if is_hex => "HEX",
        _ if word.parse::<f64>().is_ok() => "NUMBER",
        "bytes" | "kB" | "MB" => "UNIT",
        other => other,
    }
}

/// Build the body of a call from its recorded arguments, with the images of this host.
pub(super) fn body(line: &Line, references: &HashMap<String, String>) -> Option<Structure<'static>> {
    let args = line.args.as_deref().filter(|args| !args.is_empty())?;
    let mut builder = StructureBuilder::new();
    let mut signatures = line.signature.replace("a{sv}", "D").replace("as", "L");
    for arg in args {
        let signature = signatures.remove(0);
        builder = builder.append_field(value(arg, signature, references));
    }
    Some(builder.build().unwrap())
}

fn value(arg: &Json, signature: char, references: &HashMap<String, String>) -> Value<'static> {
    let text = |arg: &Json| {
        let text = arg.as_str().unwrap();
        references.iter().fold(text.to_owned(), |text, (recorded, own)| text.replace(recorded, own))
    };
    match signature {
        's' => Value::from(text(arg)),
        'b' => Value::from(arg.as_bool().unwrap()),
        'L' => Value::from(arg.as_array().unwrap().iter().map(text).collect::<Vec<String>>()),
        'D' => {
            let members = arg.as_object().unwrap().iter().map(|(name, variant)| {
                let signature = match variant["sig"].as_str().unwrap() {
                    "as" => 'L',
                    other => other.chars().next().unwrap(),
                };
                let inner = value(&variant["v"], signature, references);
                (name.clone(), OwnedValue::try_from(inner).unwrap())
            });
            Value::from(members.collect::<HashMap<String, OwnedValue>>())
        }
        other => panic!("no recorded call has an argument {other}"),
    }
}
