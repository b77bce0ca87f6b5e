//! The drop-in by which CRI-O keeps pinned images from the kubelet's garbage collection.

use std::collections::BTreeSet;

use crate::core::plan::steps::PlanStep;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind};

/// The drop-in (MCO's path).
pub const DROP_IN: &str = "/etc/crio/crio.conf.d/50-pinned-images";

const FILE: FileAttributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };
const DIRECTORY: FileAttributes = FileAttributes { mode: 0o755, uid: 0, gid: 0 };

/// The drop-in as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundDropIn {
    /// Kind of the file; `None` without one.
    pub kind: Option<FileKind>,
    /// Contents of a regular file.
    pub contents: Option<Vec<u8>>,
    /// Directories above it that do not exist, the deepest first.
    pub missing_parents: Vec<ManagedPath>,
}

/// Return the contents of the drop-in, as MCO writes them. The names need no escapes:
/// [`PinnedImageSets::images`](super::image_sets::PinnedImageSets::images) refuses those that would.
#[must_use]
pub fn contents(images: &BTreeSet<String>) -> Vec<u8> {
    let names: Vec<String> = images.iter().map(|image| format!("\"{image}\"")).collect();
    format!("[crio]\n  [crio.image]\n    pinned_images = [{}]\n", names.join(", ")).into_bytes()
}

/// Return true if CRI-O keeps exactly these images.
#[must_use]
pub fn is_right(found: &FoundDropIn, images: &BTreeSet<String>) -> bool {
    match found.kind {
        None => images.is_empty(),
        Some(_) => !images.is_empty() && found.contents.as_deref() == Some(&contents(images)),
    }
}

/// Plan the drop-in for these images; without any there is none. Fails with the obstacle on the disk.
pub fn plan(found: &FoundDropIn, images: &BTreeSet<String>) -> Result<Vec<PlanStep>, String> {
    let path = ManagedPath::constant(DROP_IN);
    if is_right(found, images) {
        return Ok(Vec::new());
    }
    if matches!(found.kind, Some(FileKind::Directory | FileKind::Other)) {
        return Err(format!("{DROP_IN} is no file; move it away"));
    }
    if images.is_empty() {
        return Ok(vec![PlanStep::Remove { path }]);
    }
    let parents = found.missing_parents.iter().rev().cloned();
    let parents = parents.map(|path| PlanStep::MakeDirectory { path, attributes: DIRECTORY });
    let write = PlanStep::Write { path, contents: contents(images), attributes: FILE };
    Ok(parents.chain([write]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(names: &[&str]) -> FoundDropIn {
        let contents = Some(contents(&images(names)));
        FoundDropIn { kind: Some(FileKind::File), contents, missing_parents: Vec::new() }
    }

    #[test]
    fn contents_are_those_that_mco_writes() {
        let expected = "[crio]\n  [crio.image]\n    pinned_images = [\"reg.example/a@sha256:33\", \"reg.example/b@sha256:44\"]\n";
        let names = images(&["reg.example/b@sha256:44", "reg.example/a@sha256:33"]);
        assert_eq!(String::from_utf8(contents(&names)).unwrap(), expected);
        let parsed: toml::Table = expected.parse().unwrap();
        let pinned = &parsed["crio"]["image"]["pinned_images"];
        assert_eq!(pinned.as_array().unwrap().len(), 2);
    }

    #[test]
    fn drop_in_is_written_only_for_other_images_and_removed_with_the_last() {
        let path = || ManagedPath::constant(DROP_IN);
        assert_eq!(plan(&found(&["a"]), &images(&["a"])), Ok(vec![]));
        assert_eq!(plan(&FoundDropIn::default(), &images(&[])), Ok(vec![]));
        assert_eq!(plan(&found(&["a"]), &images(&[])), Ok(vec![PlanStep::Remove { path: path() }]));
        let write = PlanStep::Write { path: path(), contents: contents(&images(&["b"])), attributes: FILE };
        assert_eq!(plan(&found(&["a"]), &images(&["b"])), Ok(vec![write.clone()]));

        let directories = ["/etc/crio/crio.conf.d", "/etc/crio"].map(ManagedPath::constant);
        let bare = FoundDropIn { missing_parents: directories.clone().into(), ..FoundDropIn::default() };
        let [deeper, upper] = directories.map(|path| PlanStep::MakeDirectory { path, attributes: DIRECTORY });
        assert_eq!(plan(&bare, &images(&["b"])), Ok(vec![upper, deeper, write]));
    }

    #[test]
    fn directory_in_the_way_is_named() {
        let found = FoundDropIn { kind: Some(FileKind::Directory), ..FoundDropIn::default() };
        assert_eq!(plan(&found, &images(&["a"])), Err(format!("{DROP_IN} is no file; move it away")));
    }
}
