//! The executable on plain trees: its use of configs, and its refusals.

mod activation;
mod bad_document;
mod bad_host;
mod bad_input;
mod hostile;
mod irreconcilable;
mod planted;
mod rendered;
mod secrets;
