//! Force file: an operator's wish to apply the desired config whatever speaks against it.

use std::path::Path;

use crate::core::config::host_config::FORCE_FILE;
use crate::core::values::causes::chain;

pub(super) fn is_forced() -> bool {
    Path::new(FORCE_FILE).exists()
}

pub(super) fn remove_force_file() {
    if let Err(error) = std::fs::remove_file(FORCE_FILE) {
        log::warn!(
            "cannot remove {FORCE_FILE}, which also forces the next update: {error}",
            error = chain(&error)
        );
    }
}
