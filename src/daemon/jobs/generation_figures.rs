//! Generations of the host's deployments, for the metrics.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::host::RunningHost;
use crate::host::facts::booted::SYSROOT;
use crate::os::Deployment;
use crate::transaction::update::sysroot::{deployment_state, is_booted};

/// Generation of a deployment, for the metrics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::daemon) struct GenerationFigures {
    pub(in crate::daemon) generation: GenerationId,
    pub(in crate::daemon) config: ConfigName,
    /// Digest of the manifest of the deployment's image.
    pub(in crate::daemon) image_digest: Option<String>,
    pub(in crate::daemon) state: DeploymentRole,
}

/// Role of a deployment in the boot order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::daemon) enum DeploymentRole {
    Staged,
    Booted,
    /// Neither of them.
    Rollback,
}

impl DeploymentRole {
    pub(in crate::daemon) fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Booted => "booted",
            Self::Rollback => "rollback",
        }
    }
}

impl GenerationFigures {
    pub(in crate::daemon) fn of(record: &GenerationRecord, state: DeploymentRole) -> Self {
        let GenerationRecord { generation, config, deployment, .. } = record;
        Self {
            generation: generation.clone(),
            config: config.clone(),
            image_digest: deployment.as_ref().and_then(|deployment| deployment.image_digest.clone()),
            state,
        }
    }
}

/// List the generations of the deployments whose record is their own: libostree copies records into foreign ones. A
/// deployment that cannot be read fails no verification of the booted one.
pub(in crate::daemon) fn own_generations(
    deployments: Vec<Deployment>,
    host: &RunningHost,
) -> Vec<GenerationFigures> {
    let figures = deployments.into_iter().filter_map(|deployment| {
        let role = match &deployment {
            Deployment { staged: true, .. } => DeploymentRole::Staged,
            found if is_booted(found, &host.booted) => DeploymentRole::Booted,
            _ => DeploymentRole::Rollback,
        };
        let state = deployment_state(Path::new(SYSROOT), deployment).inspect_err(|error| {
            log::warn!("cannot read the generation of a deployment for the metrics: {}", chain(error));
        });
        let record = state.ok().filter(|state| state.record_matches)?.record?;
        Some(GenerationFigures::of(&record, role))
    });
    figures.collect()
}
