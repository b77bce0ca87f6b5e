//! os-release(5) of a tree.

use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::os_release::{OsRelease, PLACES};
use crate::host::Root;

/// Reads it; nothing is known where it cannot be read.
#[must_use]
pub fn read(root: &Root) -> OsRelease {
    for place in PLACES.map(ManagedPath::constant) {
        // A link to the other place, as a rule.
        if let Ok(Some(bytes)) = root.read(&place, limits::DOCUMENT_BYTES) {
            return OsRelease::parse(&String::from_utf8_lossy(&bytes));
        }
    }
    OsRelease::default()
}
