//! Items of the status about the host itself: its origin, space, agent and kernel arguments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
use crate::core::values::image::boot_image::BootImage;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;

/// Origin of a host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OriginItem {
    /// Image that the host was installed from; null if its installer left no document.
    pub boot_image: Option<BootImage>,
    /// Changes of the config since the first boot that only an installation applies, at most 100; empty if the config of
    /// the first boot is not on the host.
    pub irreconcilable_changes: Vec<IrreconcilableChange>,
    /// Documents about the origin that cannot be read.
    pub unreadable: Vec<UnreadableDocument>,
}

/// Free space of one file system.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceItem {
    /// Directory on the file system: `/boot`, `/sysroot` or `/var`.
    pub path: String,
    /// Bytes that are free for the agent.
    pub free: u64,
    /// Size in bytes.
    pub total: u64,
}

/// Executable of the agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentItem {
    /// Version, as `flameholder --version` prints it.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Path, with links resolved. An adopted copy lies below `/usr/local/libexec/flameholder`, which is in `/var` on
    /// a host of OSTree.
    #[schemars(regex(pattern = "^/"))]
    pub path: String,
}

/// Document of the agent that cannot be read: damaged, or of a newer release.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableDocument {
    pub path: String,
    /// Reason, in one line.
    pub reason: String,
}

/// Changes to the kernel arguments that the next full reboot makes.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArgumentsItem {
    /// Arguments of the boot entry that the running kernel lacks; a quoted one is one item, with its quotes.
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub added: KernelArguments,
    /// Arguments of the running kernel that the boot entry lacks.
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub removed: KernelArguments,
}

impl ArgumentsItem {
    /// Describe a difference; `None` if there is none.
    #[must_use]
    pub fn of(skew: &ArgumentSkew) -> Option<Self> {
        let ArgumentSkew { added, removed } = skew.clone();
        (!skew.is_empty()).then_some(Self { added, removed })
    }
}
