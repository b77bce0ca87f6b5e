//! Identifiers: a type for each, so that the compiler tells them apart. Each is made where it enters the agent,
//! and is serialised as the string that it is; it is empty while it is unknown. Patterns of JSON Schema
//! (ECMA-262 regular expressions) describe the shapes that the agent itself writes; a document of another program
//! may hold other text.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $keyword:literal = $value:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(extend($keyword = $value))]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                self.0 == text
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                self.0 == *text
            }
        }
    };
}

identifier! {
    /// Generation ID: 128 bits in hexadecimal digits, also a kernel argument of the generation's boot entry.
    GenerationId, "pattern" = "^[0-9a-f]{32}$"
}

identifier! {
    /// The kernel's ID of a boot, a UUID. Empty if it could not be read: then boots cannot be told apart.
    BootId, "maxLength" = 36
}

identifier! {
    /// Name of a config: `metadata.name` of the `MachineConfig`.
    ConfigName, "minLength" = 1
}

identifier! {
    /// Canonical digest of a config: `sha256:` and 64 hexadecimal digits.
    ConfigDigest, "pattern" = DIGEST
}

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
