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

/// Digits of a generation ID that texts show: enough to tell the generations of a host apart.
const SHOWN_DIGITS: usize = 12;

impl GenerationId {
    /// Return the beginning of the ID, as far as texts show it. JSON documents and the journal have all of it.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.0.get(..SHOWN_DIGITS).unwrap_or(&self.0)
    }
}

identifier! {
    /// ID of a boot: the kernel's, a UUID. Soft reboots keep the kernel, so `+` and their number follow after the
    /// first one. Empty if it could not be read: then boots cannot be told apart.
    BootId, "maxLength" = 47
}

/// Separator of the kernel's boot ID and the number of soft reboots.
const SOFT_REBOOTS: char = '+';

impl BootId {
    /// Compose the ID of the boot after this number of soft reboots of the kernel with this boot ID.
    #[must_use]
    pub fn of_kernel(kernel: &str, soft_reboots: u32) -> Self {
        match (kernel, soft_reboots) {
            ("", _) | (_, 0) => kernel.into(),
            _ => format!("{kernel}{SOFT_REBOOTS}{soft_reboots}").into(),
        }
    }

    /// Return true if both boots ran on one start of the kernel: at most soft reboots lie between them, and the
    /// bootloader chose no boot entry.
    #[must_use]
    pub fn has_kernel_of(&self, other: &Self) -> bool {
        let kernel = |boot: &'_ Self| boot.0.split(SOFT_REBOOTS).next().map(str::to_owned);
        kernel(self) == kernel(other)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_is_that_of_the_kernel_until_a_soft_reboot() {
        let [first, second, third] = [0, 1, 12].map(|count| BootId::of_kernel("a-b", count));
        assert_eq!([&first, &second, &third].map(BootId::as_str), ["a-b", "a-b+1", "a-b+12"]);
        assert!(first.has_kernel_of(&third) && third.has_kernel_of(&second));
        assert!(!first.has_kernel_of(&BootId::of_kernel("a-c", 1)));
        assert_eq!(BootId::of_kernel("", 2).as_str(), "", "unknown boots cannot be told apart");
    }
}
