//! A daemon whose source is a cluster: a real API server behind a proxy that fails as it is told to.

mod faults;
mod history;
mod idle;
mod permissions;
mod tls;
