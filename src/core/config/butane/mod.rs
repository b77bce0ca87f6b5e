//! Butane configs (`variant: fcos` and `openshift`), translated as Butane does: to an Ignition config, or to a MachineConfig.
//! Source of the rules: <https://coreos.github.io/butane/specs/>.
//!
//! What only a first boot can do (disks, file systems, a boot device) is refused by name, and so is a key that the version does
//! not define, of which Butane warns.

mod keys;
mod local_files;
mod local_trees;
mod translation;
mod version;

use serde_json::Value;

pub use self::local_files::{LocalEntry, LocalFileError, LocalFiles, LocalNode, NoLocalFiles};
pub use self::translation::translate;

/// Return true for a Butane config: no other document has a variant.
#[must_use]
pub fn is_butane(document: &Value) -> bool {
    document.get("variant").is_some() && document.get("kind").is_none()
}

#[cfg(test)]
mod tests;
