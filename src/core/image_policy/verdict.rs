//! Verdict on a pulled image: the demands of the host's policy, and if they were enforced.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PolicyRule;

/// Demands of the host's policy on an image when it was pulled, and if they were enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignatureVerdict {
    /// Place of the governing rule in containers-policy.json(5), such as `transports.docker."quay.io/example"`.
    #[schemars(length(min = 1))]
    pub rule: String,
    /// Demands of the rule, in words: the kind of signature, with its keys or identities.
    #[schemars(length(min = 1))]
    pub demand: String,
    /// Files with keys that the rule names. One that could not be read is missing.
    pub key_files: Vec<KeyFile>,
    pub enforcement: PolicyEnforcement,
}

/// File with public keys, as it was at the pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyFile {
    #[schemars(length(min = 1))]
    pub path: String,
    /// SHA-256 of its content: `sha256:` and 64 hexadecimal digits.
    #[schemars(length(min = 1))]
    pub digest: String,
}

/// Enforcement of a rule by the skopeo that pulled the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyEnforcement {
    /// The rule demands no signature.
    NotNeeded,
    /// skopeo rejects what its policy rejects: it was tried with another image, around the pull of this one.
    Proven,
    /// skopeo pulls what its policy rejects: nothing was verified.
    Absent,
    /// The trial of skopeo failed.
    Unknown,
}

impl SignatureVerdict {
    /// Describe the rule with its enforcement.
    #[must_use]
    pub fn of(rule: PolicyRule<'_>, key_files: Vec<KeyFile>, enforcement: PolicyEnforcement) -> Self {
        Self { rule: rule.to_string(), demand: rule.demand(), key_files, enforcement }
    }

    /// Return true if the policy demands a signature that may not have been verified.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        matches!(self.enforcement, PolicyEnforcement::Absent | PolicyEnforcement::Unknown)
    }
}

impl fmt::Display for SignatureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, demand, .. } = self;
        match self.enforcement {
            PolicyEnforcement::NotNeeded => write!(f, "none demanded (rule {rule})"),
            PolicyEnforcement::Proven => write!(f, "verified by skopeo: {demand} (rule {rule})"),
            PolicyEnforcement::Absent => {
                write!(
                    f,
                    "not verified: rule {rule} demands {demand}, and the installed skopeo does not enforce it"
                )
            }
            PolicyEnforcement::Unknown => write!(
                f,
                "doubtful: rule {rule} demands {demand}, and skopeo could not be shown to enforce it"
            ),
        }
    }
}
