//! Registry with one artifact or image at a time, made from layers.

use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use osimage::{ArtifactLayout, ImageRegistry, RegistryAnswers, Scratch};

/// Layout of an artifact, and the home of a worker that may read it from a registry without TLS.
pub(super) struct ArtifactShelf {
    pub(super) scratch: Scratch,
    pub(super) layout: ArtifactLayout,
}

impl ArtifactShelf {
    pub(super) fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let layout = ArtifactLayout::create(&scratch.path().join("layout")).unwrap();
        Self { scratch, layout }
    }

    pub(super) fn serve(&self) -> ImageRegistry {
        self.serve_as(RegistryAnswers::Layout(self.layout.path().to_owned()))
    }

    pub(super) fn serve_as(&self, answers: RegistryAnswers) -> ImageRegistry {
        let registry = ImageRegistry::start(answers).unwrap();
        registry.write_home(&self.home()).unwrap();
        registry
    }

    /// Home of a worker that may read the registry.
    pub(super) fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }
}

pub(super) fn archive(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, kind, text) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        if kind.is_symlink() {
            header.set_size(0);
            archive.append_link(&mut header, path, text).unwrap();
        } else {
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
    }
    archive.into_inner().unwrap()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
