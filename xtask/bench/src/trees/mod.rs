//! The trees that are changed and read: their files, the config for them, and two of them side by side.

pub mod contents;
pub mod document;
pub mod pair;
