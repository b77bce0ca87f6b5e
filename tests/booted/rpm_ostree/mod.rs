//! A booted host on which `rpm-ostreed` changes images and packages: a D-Bus daemon and a stand-in that speaks the
//! protocol of the real `rpm-ostreed` on the real sysroot.

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
mod recordings;
mod repeated;
mod updates;
