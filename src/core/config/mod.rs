//! Decoding and rendering of configs: from the bytes of a MachineConfig to a validated
//! [`host_config::HostConfig`] and its [`managed_files::ManagedFiles`]; also the agent's own settings.

pub mod accounts;
pub mod artifact;
pub mod butane;
pub mod contents;
pub mod decode;
pub mod document;
pub mod extensions;
pub mod host_config;
pub mod ignition;
pub mod layering;
pub mod machine_config;
pub mod machine_configuration;
pub mod managed_files;
pub mod policy;
pub mod protected;
pub mod received;
pub mod registries;
pub mod render;
pub mod settings;
pub mod units;
