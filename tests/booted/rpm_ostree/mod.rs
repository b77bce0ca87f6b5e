//! A host whose images and packages are rpm-ostreed's: the executable on the host that `booted` tests have, beside a bus
//! and a daemon that speaks the real one's protocol on the real sysroot.

mod beside;
mod client;
mod concurrency;
mod deaths;
mod failures;
mod introspection;
mod kills;
mod leaks;
mod lifecycle;
mod meddling;
mod packages;
mod peers;
mod repeated;
mod updates;
