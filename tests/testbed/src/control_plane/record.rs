//! What was asked of the API server, and what was said to it in that.

use std::collections::BTreeMap;

use serde_json::Value;

use super::PREFIX;

/// One request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who asked.
    pub identity: String,
    pub method: String,
    pub target: String,
    pub body: Vec<u8>,
    pub is_answered: bool,
}

/// All requests, in order.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub asked: Vec<Asked>,
    conditions: BTreeMap<String, String>,
    told: Vec<String>,
}

impl Record {
    pub fn note(&mut self, asked: Asked) {
        if asked.method == "PATCH" && asked.is_answered {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            self.note_annotations(&body);
            self.note_conditions(&body);
        }
        self.asked.push(asked);
    }

    /// Forgets what was asked, and not how it stands since.
    pub fn forget(&mut self) {
        self.asked.clear();
        self.told.clear();
    }

    fn note_annotations(&mut self, body: &Value) {
        let annotations = body["metadata"]["annotations"].as_object();
        for (key, value) in annotations.into_iter().flatten() {
            let key = key.trim_start_matches(PREFIX);
            self.told.push(match value.as_str() {
                Some(value) => format!("{key}={value}"),
                None => format!("{key} removed"),
            });
        }
    }

    /// Those that are not false, and become what they were not.
    fn note_conditions(&mut self, body: &Value) {
        for condition in body["status"]["conditions"].as_array().into_iter().flatten() {
            let [kind, status] = ["type", "status"].map(|key| condition[key].as_str().unwrap().to_owned());
            let before = self.conditions.insert(kind.clone(), status.clone());
            let was = before.unwrap_or_else(|| "False".to_owned());
            if was != status && (status != "False" || kind == "Updated") {
                self.told.push(format!("{kind}: {status}"));
            }
        }
    }

    /// The annotations and conditions that were written, in order.
    pub fn told(&self) -> Vec<&str> {
        self.told.iter().map(String::as_str).collect()
    }
}
