//! Client of the `FleetLock` protocol, by which the hosts of a fleet take turns to reboot.
//!
//! A host requests a slot of its group before it reboots (`v1/pre-reboot`), and gives it back once it is in a steady state
//! again (`v1/steady-state`). Both can be repeated: the server knows the host by its identity. It never takes a slot back
//! by itself.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::HttpsError;
use super::access_files::AccessFiles;
use super::exchange::{exchange, read_body};
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::daemon::grant::{SlotAnswer, SlotRequest};
use crate::core::values::foreign_text::harmless_line;

/// Header that tells a request of the protocol from one that a browser was led to send.
const PROTOCOL: (&str, &str) = ("fleet-lock-protocol", "true");
/// Limit of a refusal in bytes; a server sends some hundred.
const ANSWER_BYTES: usize = 1 << 16;
/// Longest time until an answer is complete.
const LIMIT: Duration = Duration::from_secs(30);

/// Client of a `FleetLock` server.
#[derive(Debug)]
pub struct FleetLockClient<'a> {
    pub server: &'a ServerUrl,
    pub access: &'a ServerAccess,
    /// Group whose slots are requested.
    pub group: &'a str,
    /// Identity of the host in its group.
    pub id: &'a str,
}

#[derive(Serialize)]
struct RequestBody<'a> {
    client_params: ClientParameters<'a>,
}

#[derive(Serialize)]
struct ClientParameters<'a> {
    id: &'a str,
    group: &'a str,
}

/// Refusal, as the protocol has it.
#[derive(Deserialize)]
struct RefusalBody {
    kind: String,
    value: String,
}

impl FleetLockClient<'_> {
    /// Send a request, and wait for its answer.
    pub async fn send(&self, request: SlotRequest) -> Result<SlotAnswer, HttpsError> {
        let url = self.server.below(path_of(request));
        let answer = timeout(LIMIT, self.exchange(&url)).await;
        answer.unwrap_or_else(|_| Err(HttpsError::TimedOut { url: url.to_string(), limit: LIMIT }))
    }

    async fn exchange(&self, url: &ServerUrl) -> Result<SlotAnswer, HttpsError> {
        let files = AccessFiles::load(self.access)?;
        let parameters = ClientParameters { id: self.id, group: self.group };
        let body = serde_json::to_vec(&RequestBody { client_params: parameters });
        let body = body.expect("a document of strings has only string keys");
        let request =
            Request::post(url.path()).header(PROTOCOL.0, PROTOCOL.1).header(CONTENT_TYPE, "application/json");
        let answer = exchange(url, self.access, &files, request, Bytes::from(body)).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(SlotAnswer::Granted);
        }
        let bytes = read_body(url, answer, ANSWER_BYTES).await?.unwrap_or_default();
        Ok(SlotAnswer::Refused(reason_of(status, &bytes)))
    }
}

fn path_of(request: SlotRequest) -> &'static str {
    match request {
        SlotRequest::Acquire => "v1/pre-reboot",
        SlotRequest::Release => "v1/steady-state",
    }
}

/// Return the reason of a refusal: that of the protocol, else the status.
fn reason_of(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<RefusalBody>(body) {
        Ok(refusal) => harmless_line(&format!("{} ({})", refusal.value, refusal.kind)).into_owned(),
        Err(_) => format!("the server answers with status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_has_the_reason_of_the_server_in_one_line() {
        let told = br#"{"kind":"failed_lock","value":"semaphore currently full,\nall slots are locked"}"#;
        let reason = reason_of(StatusCode::CONFLICT, told);
        assert!(
            reason.starts_with("semaphore currently full") && reason.ends_with("(failed_lock)"),
            "{reason}"
        );
        assert_eq!(reason.lines().count(), 1);
        for body in [&b""[..], b"<html>", b"{}", b"[1]"] {
            assert!(reason_of(StatusCode::BAD_GATEWAY, body).contains("502"));
        }
    }
}
