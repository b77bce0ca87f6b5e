//! Document of the commands that change something, with `-o json` (`docs/schema/change.json`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::plan::Plan;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::core::values::names::ManagedPath;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Result of a command that changes something. One that failed prints the document of an error instead.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Subcommand of `flameholder`.
    #[schemars(length(min = 1))]
    command: &'static str,
    pub result: ChangeResult,
    /// `metadata.name` of the config that the change is about; null where it is about none.
    pub config: Option<ConfigName>,
    /// Generation that the change is about; null where it is about none.
    pub generation: Option<GenerationId>,
    /// Deployment that the change is about, as `COMMIT.SERIAL`; null where it is about none.
    #[schemars(length(min = 1))]
    pub deployment: Option<String>,
    pub reboot: RebootOutlook,
    /// Seconds that the change took; null where they were not measured.
    #[schemars(range(min = 0))]
    pub seconds: Option<f64>,
    /// Files that keep local changes, as their drift policy `merge` says.
    pub merged: Vec<ManagedPath>,
    /// Managed paths whose local changes are undone.
    pub restored: Vec<ManagedPath>,
    /// Parts of the config that this host does not support, each with the reason.
    #[schemars(inner(length(min = 1)))]
    pub unsupported: Vec<String>,
    /// Files that activation puts in place at the next boot, each with the reason.
    #[schemars(inner(length(min = 1)))]
    pub deferred: Vec<String>,
    /// Consequences of entries that are applied as they are.
    #[schemars(inner(length(min = 1)))]
    pub warnings: Vec<String>,
    /// Lines that the command prints without `-o`.
    pub message: String,
}

/// Outcome of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeResult {
    /// There was nothing to do.
    Unchanged,
    /// The host, the tree or the sysroot is as asked for.
    Applied,
    /// A deployment is staged.
    Staged,
    /// The staged deployment is discarded.
    Discarded,
    /// The blocked config may be applied again.
    Unblocked,
    /// What an interrupted change left is undone or completed.
    Recovered,
    /// The agent manages the host from now on.
    Adopted,
    /// The agent does not manage the host any longer.
    Released,
}

/// Reboot with which the change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RebootOutlook {
    /// No reboot is needed.
    None,
    /// The next reboot switches to the deployment.
    Outstanding,
    /// The deployment stays locked: no reboot switches to it yet.
    Locked,
    /// The reboot is requested.
    Requested,
}

impl ChangeDocument {
    /// Begin the document of `command`: nothing is changed so far.
    #[must_use]
    pub fn of(command: &'static str) -> Self {
        Self {
            schema: SCHEMA,
            command,
            result: ChangeResult::Unchanged,
            config: None,
            generation: None,
            deployment: None,
            reboot: RebootOutlook::None,
            seconds: None,
            merged: Vec::new(),
            restored: Vec::new(),
            unsupported: Vec::new(),
            deferred: Vec::new(),
            warnings: Vec::new(),
            message: String::new(),
        }
    }

    /// Copy what a plan tells about the change that followed it.
    pub fn follow(&mut self, plan: &Plan) {
        if let Some(tree) = &plan.tree {
            self.merged = tree.merges.merged.iter().cloned().collect();
            self.restored = tree.restored().iter().map(|drift| drift.path.clone()).collect();
        }
        self.unsupported.clone_from(&plan.unsupported);
        self.deferred.clone_from(&plan.deferred);
        self.warnings.clone_from(&plan.warnings);
    }
}
