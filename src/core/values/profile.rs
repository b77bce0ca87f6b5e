//! The profile of a host: MCD's rules exactly, or the wider native ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::paths::{CLOUD_CA, KUBELET_CA, MERGED_PULL_SECRET, REGISTRY_CAS};

/// The rules that decide which parts of a config are applied and which changes are reconcilable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// MCD's rules for a host in a cluster, exactly: reconcilable changes, files that are never deleted,
    /// sections that are not applied.
    Mcd,
    /// MCD's rules, and also directories, links and appended fragments.
    Native,
}

impl Profile {
    /// The name on the command line and in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcd => "mcd",
            Self::Native => "native",
        }
    }

    /// True if a file at `path` keeps its content on disk until the desired config changes it.
    ///
    /// MCD's certificate writer replaces these files as the cluster rotates its CAs and secrets, and MCD's
    /// validation skips them.
    #[must_use]
    pub fn keeps_local_content(self, path: &super::names::ManagedPath) -> bool {
        const LEFT: [&str; 3] = [KUBELET_CA, CLOUD_CA, MERGED_PULL_SECRET];
        self == Self::Mcd && LEFT.contains(&path.as_str())
    }

    /// True if a file at `path` is not deleted when the desired config no longer lists it. MCD never deletes
    /// certificate bundles, because its certificate writer shares these paths with configs.
    #[must_use]
    pub fn never_deletes(self, path: &super::names::ManagedPath) -> bool {
        const KEPT: [&str; 4] = [
            REGISTRY_CAS,
            KUBELET_CA,
            CLOUD_CA,
            "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
        ];
        self == Self::Mcd && KEPT.iter().any(|kept| path.is_within(kept))
    }
}
