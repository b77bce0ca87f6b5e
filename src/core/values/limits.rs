//! Size limits of a configuration, in one place so that every message quotes the same number.

/// Bytes of one document, as read.
pub const DOCUMENT_BYTES: usize = 16 << 20;
/// Values in one JSON document: one of a few bytes takes hundreds in memory.
pub const JSON_VALUES: usize = 240_000;
/// Bytes of one key of an object, as decoded.
pub const KEY_BYTES: usize = 4 << 10;
/// Bytes of the paths of all refusals of one document. A path can be as long as all keys above the field.
pub const REFUSED_PATH_BYTES: usize = 1 << 20;
/// Storage files, directories and links of one configuration together.
pub const STORAGE_ENTRIES: usize = 20_000;
/// Bytes of all paths of one configuration together.
pub const PATH_BYTES: usize = 4 << 20;
/// Bytes of all decoded contents of one configuration together, after `gzip`.
pub const INFLATED_BYTES: usize = 64 << 20;
/// Bytes of all contents that one configuration names by URL: embedded in base64, they have to fit into a document.
pub const REMOTE_BYTES: usize = DOCUMENT_BYTES / 4 * 3;
/// Levels of Ignition configs that name each other.
pub const MERGE_DEPTH: usize = 16;
/// Ignition configs that one config names, at all levels together.
pub const MERGED_CONFIGS: usize = 64;
/// Bytes of a rendered config that the Kubernetes API server still stores. Rendering refuses a larger one;
/// other commands warn.
pub const CLUSTER_BYTES: usize = 1_572_864;
/// Nodes and parser events of a YAML document, with aliases expanded: stops alias bombs.
pub const YAML_NODES: usize = 500_000;
/// Bytes of one fragment of the agent's own settings.
pub const FRAGMENT_BYTES: usize = 1 << 20;
/// Layers of an artifact of configs in a registry: one for each file in the form that `oras push` makes.
pub const ARTIFACT_LAYERS: usize = 1_000;
/// Bytes of the manifest of an artifact: as much as registries take.
pub const ARTIFACT_MANIFEST_BYTES: usize = 4 << 20;
/// Bytes of the tar archive of one layer of an artifact, after decompression: its files, and a header for each entry.
pub const ARTIFACT_ARCHIVE_BYTES: usize = INFLATED_BYTES + (STORAGE_ENTRIES << 11);
