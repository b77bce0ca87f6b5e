//! File system of a host, behind one directory handle that no path leaves. All writes to the host happen
//! here.

pub mod account_lock;
pub mod disk;
pub(crate) mod effects;
pub mod error;
pub mod etc_copy;
pub mod etc_tree;
pub mod lock;
pub(crate) mod lookup;
pub(crate) mod mounts;
pub mod path_state;
pub mod root;
pub mod staging;
pub(crate) mod sync;
pub mod tree_observation;
pub(crate) mod xattrs;
