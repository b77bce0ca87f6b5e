//! Document of `version -o json` (`docs/schema/version.json`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::https;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;
/// Commit that the build names in its environment.
const COMMIT: Option<&str> = option_env!("FLAMEHOLDER_COMMIT");
const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };

/// Versions of the agent, of its worker and of the libostree that the worker loads.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Version of the agent.
    pub version: &'static str,
    /// Commit that the agent was built from; null if the build did not name it.
    pub commit: Option<&'static str>,
    /// Target that the agent was built for, such as `x86_64-unknown-linux-gnu`.
    pub target: String,
    /// Library that speaks TLS: `rustls`, which is linked in, or `openssl`, the host's.
    pub tls: &'static str,
    /// The worker; null if there is none that starts.
    pub worker: Option<WorkerVersion>,
    /// Reason for which there is no worker; else null.
    #[schemars(length(min = 1))]
    pub worker_error: Option<String>,
}

/// Version of the worker, `flameholder-ostree`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerVersion {
    /// Version of the protocol between the agent and the worker.
    pub protocol: u32,
    /// Version of the libostree that the worker loads, such as `2024.10`; empty from a worker of an older release.
    pub libostree: String,
}

impl VersionDocument {
    /// Describe this agent and its worker, or the reason for which there is none.
    #[must_use]
    pub fn of(worker: Result<WorkerVersion, String>) -> Self {
        let (worker, worker_error) = match worker {
            Ok(version) => (Some(version), None),
            Err(reason) => (None, Some(reason)),
        };
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.filter(|commit| !commit.is_empty()),
            target: format!("{}-unknown-{}-{LIBC}", std::env::consts::ARCH, std::env::consts::OS),
            tls: https::TLS_LIBRARY,
            worker,
            worker_error,
        }
    }
}
