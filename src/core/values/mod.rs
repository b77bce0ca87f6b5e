//! Values that every floor shares: paths, unit and image names, digests, kernel arguments. Each is validated
//! once, when it is parsed.

pub mod backoff;
pub mod causes;
pub mod deployment;
pub mod foreign_text;
pub mod identifiers;
pub mod image;
pub mod kernel_arguments;
pub mod limits;
pub mod names;
pub mod nearest_name;
pub mod os_release;
pub mod paths;
pub mod profile;
pub mod refusal;
pub mod tree;
pub mod xattrs;
