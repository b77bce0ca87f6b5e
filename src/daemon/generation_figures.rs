//! Generations of the host's deployments, for the metrics.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::host::RunningHost;
use crate::host::facts::booted::SYSROOT;
use crate::os::{Deployment, Sysroot};
use crate::transaction::update::sysroot;
use crate::transaction::update::sysroot::DeploymentState;

/// Generation of a deployment, for the metrics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GenerationFigures {
    pub(super) generation: GenerationId,
    pub(super) config: ConfigName,
    /// Digest of the manifest of the deployment's image.
    pub(super) image_digest: Option<String>,
    pub(super) state: DeploymentRole,
}

/// Role of a deployment in the boot order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum DeploymentRole {
    Staged,
    Booted,
    /// Neither of them.
    Rollback,
}

impl DeploymentRole {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Booted => "booted",
            Self::Rollback => "rollback",
        }
    }
}

impl GenerationFigures {
    pub(super) fn of(record: &GenerationRecord, state: DeploymentRole) -> Self {
        let GenerationRecord { generation, config, deployment, .. } = record;
        Self {
            generation: generation.clone(),
            config: config.clone(),
            image_digest: deployment.as_ref().and_then(|deployment| deployment.image_digest.clone()),
            state,
        }
    }
}

/// List the generations of deployments whose record is their own: libostree copies records into foreign ones. A deployment
/// that cannot be read fails no verification of the booted one.
pub(super) fn own_generations(os: &mut dyn Sysroot, host: &RunningHost) -> Vec<GenerationFigures> {
    let deployments = sysroot::deployment_states(os, Path::new(SYSROOT)).unwrap_or_else(|error| {
        log::warn!("cannot list the generations for the metrics: {error}", error = chain(&error));
        Vec::new()
    });
    let own = deployments.into_iter().filter(|state| state.record_matches);
    let figures = own.filter_map(|DeploymentState { deployment, record, .. }| {
        let role = match deployment {
            Deployment { staged: true, .. } => DeploymentRole::Staged,
            Deployment { id, .. } if id == host.booted.deployment => DeploymentRole::Booted,
            _ => DeploymentRole::Rollback,
        };
        Some(GenerationFigures::of(&record?, role))
    });
    figures.collect()
}
