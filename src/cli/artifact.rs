//! Artifacts of configs, pulled by the image worker under the settings and the signature policy of this host.

use std::path::Path;

use crate::cli::CliError;
use crate::core::config::artifact::{ArtifactRef, PulledArtifact};
use crate::core::values::refusal::RefusalList;
use crate::host::Root;
use crate::os::OsError;
use crate::os::worker::{FETCH_TIMEOUT, WorkerProgram, WorkerSession};
use crate::source::artifact::{ArtifactClient, ArtifactPullError};
use crate::transaction::TransactionError;
use crate::transaction::state::settings;

/// Pull the artifact with this reference. Settings that cannot be used end the command: without them it might be trusted
/// unsigned.
pub(crate) fn pull(artifact: &ArtifactRef) -> Result<PulledArtifact, CliError> {
    pull_unless(artifact, None)?.ok_or_else(|| {
        let source = RefusalList::one("", "the registry sent no artifact");
        CliError::Refused { file: artifact.to_string(), source }
    })
}

/// Pull the artifact; `None` if it has the digest `known`.
fn pull_unless(artifact: &ArtifactRef, known: Option<&str>) -> Result<Option<PulledArtifact>, CliError> {
    Ok(WorkerSession::pull_artifact(&worker()?, artifact, known)?)
}

/// Return the image worker with the settings of this host about images that are no operating system.
pub(crate) fn worker() -> Result<WorkerProgram, CliError> {
    let settings = settings::settings(&Root::open(Path::new("/"))?)?;
    Ok(WorkerProgram::locate()?
        .with_default(FETCH_TIMEOUT, settings.limits.fetch_timeout())
        .with_signature_demand(settings.image.signature.unwrap_or_default()))
}

/// Client of the daemon's source.
#[derive(Debug)]
pub(crate) struct WorkerClient;

impl ArtifactClient for WorkerClient {
    fn pull(
        &self,
        artifact: &ArtifactRef,
        known: Option<&str>,
    ) -> Result<Option<PulledArtifact>, ArtifactPullError> {
        pull_unless(artifact, known).map_err(|error| {
            let refused = match &error {
                CliError::Transaction(TransactionError::Os(OsError::ArtifactRefused { digest, .. })) => {
                    digest.clone()
                }
                _ => None,
            };
            ArtifactPullError { reason: error.chain(), refused }
        })
    }
}
