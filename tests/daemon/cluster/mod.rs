//! Daemon with the source `kube`: a real API server behind a proxy that injects faults.

mod alerts;
mod contents;
mod faults;
mod history;
mod idle;
mod node_object;
pub(crate) mod permissions;
mod pinned_images;
mod proxies;
pub(crate) mod tls;
mod trust;
mod undesired;
mod update_costs;
