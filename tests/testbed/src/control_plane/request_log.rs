//! Requests to the API server, with the annotations and conditions that they wrote.

use std::collections::BTreeMap;

use serde_json::Value;

use super::PREFIX;

/// Request to the API server.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Identity of the client.
    pub identity: String,
    pub method: String,
    pub target: String,
    pub body: Vec<u8>,
    pub is_answered: bool,
}

impl RecordedRequest {
    /// The target without its query.
    fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    fn is_event(&self) -> bool {
        self.method == "POST" && self.path().ends_with("/events")
    }
}

/// All requests, in order.
#[derive(Debug, Clone, Default)]
pub struct RequestLog {
    pub requests: Vec<RecordedRequest>,
    conditions: BTreeMap<String, String>,
    writes: Vec<String>,
}

impl RequestLog {
    pub fn note(&mut self, request: RecordedRequest) {
        if request.method == "PATCH" && request.is_answered {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            self.note_annotations(&body);
            self.note_conditions(&body);
            if let Some(changes) = body.pointer("/status/irreconcilableChanges") {
                let number = changes.as_array().map_or(0, Vec::len);
                self.writes.push(format!("irreconcilableChanges: {number}"));
            }
        }
        self.requests.push(request);
    }

    /// Delete the requests, but keep the last values of annotations and conditions.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.writes.clear();
    }

    fn note_annotations(&mut self, body: &Value) {
        let annotations = body["metadata"]["annotations"].as_object();
        for (key, value) in annotations.into_iter().flatten() {
            // The agent's own annotations say what these say.
            let Some(key) = key.strip_prefix(PREFIX) else { continue };
            self.writes.push(match value.as_str() {
                Some(value) => format!("{key}={value}"),
                None => format!("{key} removed"),
            });
        }
    }

    /// Note each condition that changed to a value other than false.
    fn note_conditions(&mut self, body: &Value) {
        for condition in body["status"]["conditions"].as_array().into_iter().flatten() {
            let [kind, status] = ["type", "status"].map(|key| condition[key].as_str().unwrap().to_owned());
            let before = self.conditions.insert(kind.clone(), status.clone());
            let was = before.unwrap_or_else(|| "False".to_owned());
            if was != status && (status != "False" || kind == "Updated") {
                self.writes.push(format!("{kind}: {status}"));
            }
        }
    }

    /// Reasons of the events, in order.
    pub fn events(&self) -> Vec<String> {
        let events = self.requests.iter().filter(|request| request.is_event());
        let reason = |request: &RecordedRequest| {
            let event: Value = serde_json::from_slice(&request.body).unwrap();
            event["reason"].as_str().unwrap().to_owned()
        };
        events.map(reason).collect()
    }

    /// Requests other than events, one line each.
    pub fn lines(&self) -> Vec<String> {
        let requests = self.requests.iter().filter(|request| !request.is_event());
        requests.map(|request| format!("{} {}", request.method, request.target)).collect()
    }

    /// Number of requests by method and path.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for request in &self.requests {
            *counts.entry(format!("{} {}", request.method, request.path())).or_default() += 1;
        }
        counts
    }

    /// Annotations and conditions that were written, in order.
    pub fn writes(&self) -> Vec<&str> {
        self.writes.iter().map(String::as_str).collect()
    }
}
