//! os-release(5) of a tree.

use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::os_release::{OsRelease, PLACES};
use crate::host::Root;

/// Read os-release; empty if it cannot be read.
#[must_use]
pub fn read(root: &Root) -> OsRelease {
    for place in PLACES.map(ManagedPath::constant) {
        // Usually a link to the other path.
        if let Ok(Some(bytes)) = root.read(&place, limits::DOCUMENT_BYTES) {
            return OsRelease::parse(&String::from_utf8_lossy(&bytes));
        }
    }
    OsRelease::default()
}
