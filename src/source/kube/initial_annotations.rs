//! Initial annotations of a new node, in a file that the config server sent with the Ignition config. The
//! file is renamed once the Node carries them.

use std::path::Path;

use crate::core::daemon::node::annotations::NodeAnnotations;
use crate::core::values::causes::chain;

const SEED: &str = "/etc/machine-config-daemon/node-annotations.json";
/// Name after the annotations are published (MCD's, with `annotation` in the singular).
const RETIRED: &str = "/etc/machine-config-daemon/node-annotation.json.bak";

/// Read the annotations; empty without a file.
pub(super) fn load() -> NodeAnnotations {
    let Ok(bytes) = std::fs::read(SEED) else { return NodeAnnotations::new() };
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        log::warn!(
            "ignoring {SEED}: {error}; the Node must have its annotations already",
            error = chain(&error)
        );
        NodeAnnotations::new()
    })
}

/// Rename the file after the annotations are published.
pub(super) fn retire() {
    if Path::new(SEED).exists()
        && let Err(error) = std::fs::rename(SEED, RETIRED)
    {
        log::warn!("cannot rename {SEED}, which has no further effect: {error}", error = chain(&error));
    }
}
