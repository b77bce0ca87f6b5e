//! Document of `fleet -o json` (`docs/schema/fleet.json`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::fleet::FleetOverview;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Nodes, pools and slots of a cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FleetDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    #[serde(flatten)]
    pub fleet: FleetOverview,
    /// Parts of the cluster that could not be read, each with the reason.
    pub missing: Vec<String>,
}

impl FleetDocument {
    #[must_use]
    pub fn of(fleet: FleetOverview, missing: Vec<String>) -> Self {
        Self { schema: SCHEMA, fleet, missing }
    }
}
