//! Reference to an artifact: `oci://REGISTRY/REPOSITORY:TAG` or `oci://REGISTRY/REPOSITORY@sha256:DIGEST`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::core::values::image::{ImageRef, ImageRefError};

const SCHEME: &str = "oci://";

/// Reference to an artifact of configs in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ArtifactRef(ImageRef);

/// Unusable reference. No message has credentials of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactRefError {
    #[error("expected oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST")]
    Malformed,
    #[error(
        "the registry is missing in {0}; expected a host name with a domain or port, such as oci://registry.example.com/fleet/configs:stable"
    )]
    Registry(String),
    #[error("{0} has neither a tag nor a digest; append `:TAG`, or `@sha256:DIGEST`")]
    Version(String),
    #[error("{0} has a tag and a digest; keep one of them")]
    TagAndDigest(String),
    #[error(transparent)]
    Image(#[from] ImageRefError),
}

impl ArtifactRef {
    /// Return true if the text is meant as a reference to an artifact.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
    }

    /// The artifact as an image of a registry, which the host's signature policy and its credentials are about.
    #[must_use]
    pub fn image(&self) -> &ImageRef {
        &self.0
    }

    /// Return true if the reference always names the same artifact.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.0.digest().is_some()
    }
}

impl FromStr for ArtifactRef {
    type Err = ArtifactRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.strip_prefix(SCHEME).ok_or(ArtifactRefError::Malformed)?;
        // First: no later message must quote credentials.
        let image: ImageRef = format!("ostree-unverified-registry:{name}").parse()?;
        let (registry, path) = name.split_once('/').ok_or(ArtifactRefError::Malformed)?;
        let is_address = registry == "localhost" || registry.contains(['.', ':']);
        if path.is_empty() || name.contains(['?', '#']) {
            return Err(ArtifactRefError::Malformed);
        }
        if !is_address {
            return Err(ArtifactRefError::Registry(text.to_owned()));
        }
        let (repository, digest) =
            path.split_once('@').map_or((path, None), |(path, digest)| (path, Some(digest)));
        let tag = repository.rsplit_once(':').map(|(_, tag)| tag);
        match (tag, digest) {
            (Some(""), _) | (None, None) => Err(ArtifactRefError::Version(text.to_owned())),
            (Some(_), Some(_)) => Err(ArtifactRefError::TagAndDigest(text.to_owned())),
            _ => Ok(Self(image)),
        }
    }
}

impl TryFrom<String> for ArtifactRef {
    type Error = ArtifactRefError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0.name())
    }
}
