//! Note of the deployments that this agent pinned, so that nothing removes them while a generation may have to be rolled
//! back to them. Written before a deployment is pinned; a pin without this note is an operator's.

use serde::{Deserialize, Serialize};

use crate::core::state::own_document;
use crate::core::state::own_document::{UpgradeStep, next_schema};
use crate::core::values::deployment::DeploymentId;

/// Path of the note: in `/var`, which every deployment sees.
pub const PINNED: &str = "/var/lib/flameholder/pinned";

/// Schema that this release writes. It also reads older ones.
pub const SCHEMA: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade the note, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Content of the note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackPin {
    pub schema: u32,
    /// Deployment that was pinned last.
    pub deployment: DeploymentId,
    /// Deployments that were pinned before it and stay so, the latest first: `deployment` was unconfirmed when it was pinned,
    /// so its own rollback may still be due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<DeploymentId>,
}

impl RollbackPin {
    /// Iterate over all pinned deployments, the latest first.
    pub fn deployments(&self) -> impl Iterator<Item = &DeploymentId> {
        std::iter::once(&self.deployment).chain(&self.earlier)
    }

    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Parse a note; `None` where it cannot be read.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        own_document::parse(bytes, SCHEMA, UPGRADES).ok()
    }
}
