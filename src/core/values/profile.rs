//! Whose verdicts apply: those of the agent that we replace, exactly, or our own wider ones.

use serde::{Deserialize, Serialize};

/// A verdict profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The reference's table of what is reconcilable and what is deleted.
    Mcd,
    /// The same, and also directories, links and appended fragments.
    Native,
}

impl Profile {
    /// As the command line and documents spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcd => "mcd",
            Self::Native => "native",
        }
    }

    /// Whether a file at `path` is left as it is until a configuration says something else of it than the one before: the
    /// reference's certificate writer replaces these as the cluster rotates its authorities and secrets, and its validation
    /// passes them over.
    #[must_use]
    pub fn leaves(self, path: &super::names::ManagedPath) -> bool {
        const LEFT: [&str; 3] = [
            "/etc/kubernetes/kubelet-ca.crt",
            "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
            "/etc/mco/internal-registry-pull-secret.json",
        ];
        self == Self::Mcd && LEFT.contains(&path.as_str())
    }

    /// Whether a file at `path` stays when a config no longer lists it: the reference never
    /// deletes certificate bundles, which its certificate writer shares with configs.
    #[must_use]
    pub fn keeps(self, path: &super::names::ManagedPath) -> bool {
        const KEPT: [&str; 4] = [
            "/etc/docker/certs.d",
            "/etc/kubernetes/kubelet-ca.crt",
            "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
            "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
        ];
        self == Self::Mcd && KEPT.iter().any(|kept| path.is_within(kept))
    }
}
