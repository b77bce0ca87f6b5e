//! Pinned image sets: images that the cluster wants on a node before anything runs them, kept there by the container
//! runtime. They are pulled beside everything else that the daemon does, and change no generation.

pub mod credentials;
pub mod drop_in;
pub mod image_manifest;
pub mod image_sets;
pub mod pin_state;
pub mod pull_space;
