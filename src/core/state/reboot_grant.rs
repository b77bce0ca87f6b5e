//! Grant to disrupt the host for an update: requested from the reboot policy, and ended once the update is confirmed.
//!
//! It is on the disk before a slot of the lock is requested, so that no slot is lost by a crash, and until the slot is
//! released.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::state::own_document;
use crate::core::state::own_document::{DocumentError, UpgradeStep, next_schema};
use crate::core::values::identifiers::{BootId, ConfigDigest, ConfigName};

/// Path of the document: outside every deployment, so that it outlives the reboot that it is for.
pub const REBOOT_GRANT: &str = "/var/lib/flameholder/reboot-grant";

/// Document schema that this release writes. It also reads older ones.
pub const SCHEMA: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade the document, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Grant to disrupt the host for an update, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebootGrant {
    /// Version of the stored document.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Name of the `MachineConfig` of the update.
    pub config: ConfigName,
    /// Image of on-cluster layering.
    pub layered_image: Option<String>,
    /// Digest of the configuration document; `None` where the name tells the content.
    pub config_hash: Option<ConfigDigest>,
    /// Time of the first request.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
    /// Slot of a lock that was requested for it: it may be held even if the answer was lost.
    pub slot: Option<LockSlot>,
    /// Boot in which everything was granted, and whose end it is for; `None` before.
    pub granted_in: Option<BootId>,
}

/// Slot of a lock's group, and the identity that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockSlot {
    #[serde(flatten)]
    pub address: LockAddress,
    pub group: String,
    /// Identity of the host in a `FleetLock` group, or name of its Node.
    pub id: String,
    /// True once the server has granted it.
    pub granted: bool,
}

/// Place of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LockAddress {
    /// `FleetLock` server, which never takes a slot back by itself.
    FleetLock {
        /// Address of the server.
        server: String,
    },
    /// Leases of a cluster: a slot is lost if it is not renewed.
    Leases(LeasePlace),
}

/// Place of Leases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeasePlace {
    /// Kubeconfig of the cluster.
    pub kubeconfig: String,
    pub namespace: String,
}

impl LockSlot {
    /// Return true if both are slots of the same group for the same host.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.address, &self.group, &self.id) == (&other.address, &other.group, &other.id)
    }

    /// Name the lock for an operator.
    #[must_use]
    pub fn lock(&self) -> String {
        match &self.address {
            LockAddress::FleetLock { server } => format!("{server} (group {})", self.group),
            LockAddress::Leases(LeasePlace { namespace, .. }) => {
                format!("the leases in the namespace {namespace} (group {})", self.group)
            }
        }
    }

    /// Return true if the slot has to be renewed: without that, another host can take it.
    #[must_use]
    pub fn expires(&self) -> bool {
        matches!(self.address, LockAddress::Leases(_))
    }
}

/// Reason why the document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GrantDocumentError {
    /// Document that does not parse.
    #[error("reading the grant of a reboot {REBOOT_GRANT}")]
    Malformed(#[source] serde_json::Error),
    /// Document that a newer release wrote.
    #[error(
        "the grant of a reboot {REBOOT_GRANT} has schema {0}, and this release reads schemas up to {SCHEMA}"
    )]
    Schema(u32),
}

impl RebootGrant {
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, GrantDocumentError> {
        own_document::parse(bytes, SCHEMA, UPGRADES).map_err(|unreadable| match unreadable {
            DocumentError::Malformed(source) => GrantDocumentError::Malformed(source),
            DocumentError::Schema(schema) => GrantDocumentError::Schema(schema),
        })
    }

    /// Return true if the host has to renew its slot: it holds one that expires, or may hold one in the middle of a disruption.
    #[must_use]
    pub fn needs_renewal(&self) -> bool {
        let may_hold = |slot: &LockSlot| slot.granted || self.granted_in.is_some();
        self.slot.as_ref().is_some_and(|slot| slot.expires() && may_hold(slot))
    }

    /// Return true if the server has granted the slot, in this boot or before it.
    #[must_use]
    pub fn holds_slot(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.granted)
    }
}
