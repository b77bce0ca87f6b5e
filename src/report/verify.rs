//! Document of `verify -o json` (`docs/schema/verify.json`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::config::settings::DriftPolicy;
use crate::core::plan::drift::{Drift, DriftDifference, DriftFinding};
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::DriftKind;
use crate::report::status::ArgumentsItem;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Drift of the disk from the record of the applied generation. The command exits with 2 if drift counts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyDocument<'a> {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Generation of the record.
    generation: &'a GenerationId,
    /// `metadata.name` of the record's config.
    config: &'a ConfigName,
    /// Drifted paths, after the repair if one was asked for.
    drift: Vec<DriftedPath<'a>>,
    /// Paths that this command repaired.
    repaired: Vec<RepairedPath<'a>>,
    /// Kernel arguments that take effect with the next full reboot, because a soft reboot kept the running kernel; null
    /// if the kernel has those of the boot entry. They are no drift.
    kernel_arguments_after_reboot: Option<ArgumentsItem>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DriftedPath<'a> {
    /// Absolute path on the host: the unit's file or link for an enablement, the record for kernel arguments.
    path: &'a ManagedPath,
    kind: DriftKind,
    /// Difference without contents; null where the kind says everything.
    difference: Option<&'a DriftDifference>,
    /// Drift policy of the path.
    policy: DriftPolicy,
    /// True unless the policy accepts the drift.
    counts: bool,
    /// Documents of the desired config that list the path, the one that wins last; empty unless the host merged several.
    documents: &'a [String],
    /// Reason for which a path with the policy `repair` was not repaired; else null.
    #[schemars(length(min = 1))]
    obstacle: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RepairedPath<'a> {
    /// Absolute path on the host.
    path: &'a ManagedPath,
    kind: DriftKind,
    /// Difference before the repair, without contents; null where the kind says everything.
    difference: Option<&'a DriftDifference>,
}

impl<'a> VerifyDocument<'a> {
    /// Build the document of a comparison with `record`.
    #[must_use]
    pub fn of(
        record: &'a GenerationRecord,
        findings: &'a [DriftFinding],
        repaired: &'a [Drift],
        skew: &ArgumentSkew,
    ) -> Self {
        let drifted = |found: &'a DriftFinding| DriftedPath {
            path: &found.drift.path,
            kind: found.drift.kind,
            difference: found.drift.difference.as_ref(),
            policy: found.policy,
            counts: found.counts(),
            documents: &found.documents,
            obstacle: found.obstacle.as_deref(),
        };
        let repaired = repaired.iter().map(|drift| RepairedPath {
            path: &drift.path,
            kind: drift.kind,
            difference: drift.difference.as_ref(),
        });
        Self {
            schema: SCHEMA,
            generation: &record.generation,
            config: &record.config,
            drift: findings.iter().map(drifted).collect(),
            repaired: repaired.collect(),
            kernel_arguments_after_reboot: ArgumentsItem::of(skew),
        }
    }
}
