//! Documents on HTTPS servers, such as the config server of a cluster; contents that a config names by their hash; and the lock
//! of a fleet.
//!
//! A connection carries one request: documents are asked for every few minutes, and nothing of a connection stays in
//! memory meanwhile. No proxy is used. Redirections of a document are followed on the same server only.

mod access_files;
mod contents;
mod error;
mod exchange;
mod fetch;
mod fips;
mod fleet_lock;
mod tls;

pub use contents::{fetch_contents, fetch_graph};
pub use error::HttpsError;
pub use fetch::{DocumentAnswer, DocumentRequest, DocumentVersion, fetch};
pub use fips::{IS_LINKED_IN, TLS_LIBRARY, UnvalidatedTls, ensure_validated_tls};
pub use fleet_lock::FleetLockClient;
