//! Artifacts of configs in a container registry: their references, manifests and files, of which every part may be hostile.
//!
//! An artifact has one of two forms, or both. `oras push` makes a layer of each file, which names the file in an annotation;
//! a build of an image makes layers of tar archives, with the files below the root.

mod files;
mod manifest;
mod reference;
#[cfg(test)]
mod tests;

pub use self::files::{ArtifactFile, ArtifactFiles, EntryKind};
pub use self::manifest::{ArtifactLayer, ArtifactManifest, LayerContent, LayerPacking};
pub use self::reference::{ArtifactRef, ArtifactRefError};
use crate::core::values::limits;

/// Artifact as it was pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledArtifact {
    /// Digest of its manifest.
    pub digest: String,
    pub files: ArtifactFiles,
}

/// Artifact that is refused each time: another one has to be pushed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// A manifest that is no JSON of an OCI image manifest; the cause is the parser's.
    #[error("its manifest is malformed ({0}); expected an OCI image manifest")]
    Manifest(String),
    #[error("its manifest has more than {} bytes", limits::ARTIFACT_MANIFEST_BYTES)]
    ManifestSize,
    #[error("it has no layers, thus no files")]
    Empty,
    #[error("it has {count} layers; the limit is {}", limits::ARTIFACT_LAYERS)]
    Layers { count: usize },
    #[error("it has more than {} files", limits::STORAGE_ENTRIES)]
    Entries,
    #[error("it has more than {} bytes of files", limits::INFLATED_BYTES)]
    Size,
    #[error("its file {path:?} has more than {} bytes, the limit of a document", limits::DOCUMENT_BYTES)]
    FileSize { path: String },
    /// A layer of another form of artifact, such as a chart or a signature.
    #[error(
        "its layer {layer} of the media type {media_type:?} is neither a file with a title, as `oras push` makes it, nor a tar archive, as a build of an image makes it"
    )]
    Form { layer: usize, media_type: String },
    #[error(
        "its layer {0} is to be fetched from another place than the registry; push the artifact with all layers"
    )]
    ForeignLayer(usize),
    #[error("the digest of its layer {0} is no sha256 digest")]
    LayerDigest(usize),
    #[error(
        "its path {0:?} leads out of the artifact, or is none; name files by relative paths without `..`"
    )]
    Path(String),
    #[error("its path {0:?} is there twice; give each file a path of its own")]
    Duplicate(String),
    #[error("its path {0:?} is a file, and the directory of another one")]
    FileAndDirectory(String),
    #[error("its path {path:?} is {kind}; an artifact has regular files and directories only")]
    Kind { path: String, kind: &'static str },
    #[error(
        "its path {0:?} removes files of an earlier layer; build the artifact from scratch, without them"
    )]
    Whiteout(String),
    /// An archive that cannot be read; the cause is the reader's.
    #[error("the archive in its layer {layer} is damaged ({cause})")]
    Archive { layer: usize, cause: String },
}
