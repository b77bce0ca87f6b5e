//! Pull of an artifact of configs, and of files of an image, in sessions that open no sysroot.

use super::{WorkerProgram, WorkerSession, protocol_error, unexpected};
use crate::core::config::artifact::{ArtifactFiles, ArtifactRef, PulledArtifact};
use crate::core::values::image::ImageRef;
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
        match session.receive_files()? {
            (files, WorkerReply::Artifact(digest)) => Ok(Some(PulledArtifact { digest, files })),
            (_, WorkerReply::Done) => Ok(None),
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Read files of an image that is no OS image, in a session of its own. A file that the image does not have is left out.
    pub fn image_files(
        program: &WorkerProgram,
        image: &ImageRef,
        paths: &[&str],
    ) -> Result<ArtifactFiles, OsError> {
        let mut session = Self::start(program)?;
        session.check_greeting()?;
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        session.send(&WorkerRequest::ImageFiles { image: image.clone(), paths })?;
        match session.receive_files()? {
            (files, WorkerReply::Done) => Ok(files),
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Receive files, and the reply that ends them.
    fn receive_files(&mut self) -> Result<(ArtifactFiles, WorkerReply), OsError> {
        let mut files = ArtifactFiles::default();
        loop {
            match self.receive()? {
                WorkerReply::ArtifactFile(file) => {
                    files.add(file).map_err(|error| protocol_error(&error.to_string()))?;
                }
                WorkerReply::Failed(error) => return Err(error),
                end => return Ok((files, end)),
            }
        }
    }
}
