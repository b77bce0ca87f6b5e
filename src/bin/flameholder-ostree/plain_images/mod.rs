//! Images that are no operating system: artifacts of configs, the extensions image, release images.

pub(crate) mod artifact;
pub(crate) mod selected_files;
pub(crate) mod unpack;
