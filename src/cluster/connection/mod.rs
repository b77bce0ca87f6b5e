//! Connection to the API server: the kubeconfig names the server and identifies the agent, which waits when the server is
//! busy, and counts the answers.

mod busy_server;
mod client_config;
pub(in crate::cluster) mod credentials;
mod first_request;
mod http_client;
mod identity;
mod request_counts;
mod tls;

pub use busy_server::BusyServer;
pub use identity::ClusterIdentity;
pub use request_counts::RequestCounts;
