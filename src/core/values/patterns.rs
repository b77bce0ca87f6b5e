//! Patterns of identifiers in the JSON documents, as JSON Schema's `pattern` (ECMA-262 regular expressions).

/// Generation ID: 128 bits in hexadecimal digits.
pub const GENERATION_ID: &str = "^[0-9a-f]{32}$";
/// Digest of a document or an image manifest.
pub const DIGEST: &str = "^sha256:[0-9a-f]{64}$";
/// Checksum of an OSTree commit.
pub const COMMIT: &str = "^[0-9a-f]{64}$";
/// Name of a stateroot, a directory below `ostree/deploy`.
pub const STATEROOT: &str = "^[^/]+$";
/// Container image of a deployment's origin, with scheme and transport.
pub const IMAGE: &str =
    "^ostree-(unverified-registry|unverified-image|image-signed|remote-registry|remote-image):";
/// Name of a systemd unit with its suffix.
pub const UNIT_NAME: &str = "^[^/]+[.][a-z]+$";
/// Absolute path below `/etc`, or `/etc` itself.
pub const ETC_PATH: &str = "^/etc(/|$)";
