//! What a node is given when it is made: annotations for the cluster, in a file that goes once they are there.

use std::path::Path;

use crate::core::daemon::node::annotations::NodeAnnotations;

/// The file.
const SEED: &str = "/etc/machine-config-daemon/node-annotations.json";
/// Its name once it is not needed any more (the reference's, in the singular).
const RETIRED: &str = "/etc/machine-config-daemon/node-annotation.json.bak";

/// Reads it; nothing where there is none.
pub(super) fn load() -> NodeAnnotations {
    let Ok(bytes) = std::fs::read(SEED) else { return NodeAnnotations::new() };
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        log::warn!("{SEED} is not read, so the cluster has to know this node already: {error}");
        NodeAnnotations::new()
    })
}

/// It is not needed any more.
pub(super) fn retire() {
    if Path::new(SEED).exists()
        && let Err(error) = std::fs::rename(SEED, RETIRED)
    {
        log::warn!("{SEED} stays, and does no harm: {error}");
    }
}
