//! Server of the `FleetLock` protocol: slots of one group, by the identities of the hosts that hold them.

use std::collections::BTreeSet;

use serde_json::Value;

/// Slots of a group, and the requests so far.
#[derive(Debug, Default)]
pub struct FleetLock {
    pub slots: usize,
    /// Identities of the hosts that hold a slot.
    pub held: BTreeSet<String>,
    /// Requests that took effect or were refused: `granted ID`, `refused ID`, `released ID`.
    pub log: Vec<String>,
}

impl FleetLock {
    /// Create a group with this number of slots.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Carry out a request; returns the status and the body of the answer. As airlock, it refuses what is no request of the
    /// protocol.
    pub(super) fn answer(&mut self, head: &str, body: &[u8]) -> (u16, String) {
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_marked = head.lines().any(|line| line.eq_ignore_ascii_case("fleet-lock-protocol: true"));
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let parameter = |name: &str| body["client_params"][name].as_str().filter(|text| !text.is_empty());
        let (Some(id), Some(_)) = (parameter("id"), parameter("group")) else {
            return refusal(400, "bad_client_params", "id or group is missing");
        };
        match (method, path, is_marked) {
            ("POST", "/v1/pre-reboot", true) if self.held.contains(id) || self.held.len() < self.slots => {
                self.held.insert(id.to_owned());
                self.log.push(format!("granted {id}"));
                (200, String::new())
            }
            ("POST", "/v1/pre-reboot", true) => {
                self.log.push(format!("refused {id}"));
                refusal(409, "failed_lock", "semaphore currently full, all slots are locked already")
            }
            ("POST", "/v1/steady-state", true) => {
                self.held.remove(id);
                self.log.push(format!("released {id}"));
                (200, String::new())
            }
            (_, _, false) => refusal(400, "bad_protocol", "the header fleet-lock-protocol is missing"),
            _ => refusal(404, "unknown", "no such path"),
        }
    }
}

fn refusal(status: u16, kind: &str, value: &str) -> (u16, String) {
    (status, serde_json::json!({ "kind": kind, "value": value }).to_string())
}
