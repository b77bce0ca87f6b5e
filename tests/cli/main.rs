//! Command line documents (`render`, JSON schemas) and the files of an installation.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failed test panics")]

mod commands;
mod config_server;
mod documents;
mod ignition;
mod installation;
mod interruption;
mod kola;
mod remote_contents;
mod render;
mod sandbox;
mod schema;
mod selinux;
