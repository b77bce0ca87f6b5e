//! Mark of an unconfirmed generation, in the `/etc` of its deployment. While it is there, the workload starts only
//! after the activation succeeded. It does not depend on `/var`, which may be missing or restored from a backup.

use serde::{Deserialize, Serialize};

use crate::core::state::own_document;
use crate::core::state::own_document::{DocumentError, UpgradeStep, next_schema};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::GenerationId;

/// Path of the mark. The drop-ins of the workload's units name it as well.
pub const UNCONFIRMED: &str = "/etc/flameholder/unconfirmed";

/// File that the activation service creates in a boot in which the workload may start in spite of the mark. The
/// drop-ins of the workload's units name it as well.
pub const ACTIVATED: &str = "/run/flameholder/activated";

/// File that the early activation creates where paths of the generation wait for a mount. The unit that completes the
/// activation names it as well.
pub const AWAITS_MOUNTS: &str = "/run/flameholder/awaits-mounts";

/// Schema that this release writes. It also reads older ones.
pub const SCHEMA: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade the mark, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Content of the mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnconfirmedMark {
    pub schema: u32,
    pub generation: GenerationId,
    /// Deployment of the generation. libostree's merge copies the mark into other deployments, where it means
    /// nothing.
    pub deployment: DeploymentId,
    /// Deployment that the generation was staged on, and is rolled back to.
    pub base: DeploymentId,
    /// True if the generation completes a first boot: there is no rollback to `base`, which was never configured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completes_first_boot: bool,
}

impl UnconfirmedMark {
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Parse a mark; `None` where it cannot be read. Such a mark is taken for one of the booted deployment.
    ///
    /// Its members keep their meaning in every schema, so that an older release, which can read nothing else of the
    /// generation, finds the deployment to roll back to.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        match own_document::parse(bytes, SCHEMA, UPGRADES) {
            Err(DocumentError::Schema(newer)) if newer > SCHEMA => serde_json::from_slice(bytes).ok(),
            parsed => parsed.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_of_a_newer_release_names_its_deployment_and_the_one_to_roll_back_to() {
        let deployment = DeploymentId { stateroot: "os".to_owned(), commit: "c".to_owned(), serial: 1 };
        let mark = UnconfirmedMark {
            schema: SCHEMA + 1,
            generation: "0a".into(),
            deployment: deployment.clone(),
            base: DeploymentId { serial: 0, ..deployment },
            completes_first_boot: false,
        };
        assert_eq!(UnconfirmedMark::parse(&mark.render()).as_ref(), Some(&mark));
        for unreadable in [&b"{\"schema\":1}"[..], b"{", b""] {
            assert_eq!(UnconfirmedMark::parse(unreadable), None);
        }
    }
}
