//! Executable on plain trees: applied configs and refused ones.

mod activation;
mod bad_document;
mod bad_host;
mod bad_input;
mod disk_effects;
mod existing_files;
mod hostile;
mod irreconcilable;
mod kubeconfig;
mod planted;
mod protected;
mod rendered;
mod secrets;
