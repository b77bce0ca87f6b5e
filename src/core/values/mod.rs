//! Names, digests and other small values, checked once when they are parsed.

pub mod backoff;
pub mod causes;
pub mod change;
pub mod deployment;
pub mod image;
pub mod kernel_arguments;
pub mod limits;
pub mod log_line;
pub mod names;
pub mod os_release;
pub(crate) mod own_document;
pub mod paths;
pub mod profile;
pub mod refusal;
pub mod secrets;
pub mod tree;
pub mod xattrs;
