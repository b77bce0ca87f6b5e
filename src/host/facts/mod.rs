//! Read-only facts about a host.

pub mod accounts;
pub(crate) mod awaited_mounts;
pub mod boot;
pub mod booted;
pub mod fleet_identity;
pub mod fragments;
pub mod healthz;
pub mod image_agent;
pub mod interfaces;
pub mod os_release;
pub mod processes;
pub mod soft_reboots;
pub mod time_zone;
pub mod tree_facts;
pub mod unit_texts;
