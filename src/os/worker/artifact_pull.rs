//! Pull of an artifact of configs, in a session that opens no sysroot.

use super::{WorkerProgram, WorkerSession, protocol_error, unexpected};
use crate::core::config::artifact::{ArtifactFiles, ArtifactRef, PulledArtifact};
use crate::os::OsError;
use crate::os::protocol::{WorkerReply, WorkerRequest};

impl WorkerSession {
    /// Pull an artifact in a session of its own; `None` if it has the digest `known`.
    pub fn pull_artifact(
        program: &WorkerProgram,
        artifact: &ArtifactRef,
        known: Option<&str>,
    ) -> Result<Option<PulledArtifact>, OsError> {
        let mut session = Self::start(program)?;
        session.check_greeting()?;
        let (image, known) = (artifact.image().clone(), known.map(str::to_owned));
        session.send(&WorkerRequest::PullArtifact { image, known })?;
        let mut files = ArtifactFiles::default();
        loop {
            match session.receive()? {
                WorkerReply::ArtifactFile(file) => {
                    files.add(file).map_err(|error| protocol_error(&error.to_string()))?;
                }
                WorkerReply::Artifact(digest) => return Ok(Some(PulledArtifact { digest, files })),
                WorkerReply::Done => return Ok(None),
                WorkerReply::Failed(error) => return Err(error),
                other => return Err(unexpected(&other)),
            }
        }
    }
}
