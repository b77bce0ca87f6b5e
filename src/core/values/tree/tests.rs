//! Tests of the drift of one path.

use super::*;

const ATTRIBUTES: FileAttributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };

fn file(mode: u32, contents: &[u8], foreign: bool) -> PathState {
    let extended = XattrSummary { label: None, foreign };
    let (attributes, digest) = (FileAttributes { mode, ..ATTRIBUTES }, ContentDigest::of(contents));
    PathState::File { attributes, digest, size: contents.len() as u64, inode: (1, 1), extended }
}

#[test]
fn foreign_attribute_is_drift_only_if_mode_and_content_agree() {
    let wanted = FileEntry::File { contents: b"x".to_vec(), attributes: ATTRIBUTES };
    for (node, deviation) in [
        (file(0o644, b"x", false), None),
        (file(0o644, b"x", true), Some(DriftKind::Xattrs)),
        (file(0o600, b"x", true), Some(DriftKind::Mode)),
        (file(0o644, b"y", true), Some(DriftKind::Content)),
    ] {
        assert_eq!(wanted.drift(&node, &ObservedPaths::new()), deviation, "{node:?}");
    }
    let directory = FileEntry::Directory { attributes: ATTRIBUTES };
    let extended = XattrSummary { label: None, foreign: true };
    let node = PathState::Directory { attributes: ATTRIBUTES, extended };
    assert_eq!(directory.drift(&node, &ObservedPaths::new()), Some(DriftKind::Xattrs));
}

#[test]
fn empty_file_of_root_is_as_good_as_no_file_for_an_empty_drop_in_only() {
    let drop_in = FileEntry::AbsentOrEmpty { attributes: ATTRIBUTES };
    for (node, of_drop_in, of_unit) in [
        (PathState::Absent, None, None),
        (file(0o644, b"", false), None, Some(DriftKind::Unexpected)),
        (file(0o666, b"", false), Some(DriftKind::Unexpected), Some(DriftKind::Unexpected)),
        (file(0o644, b"", true), Some(DriftKind::Unexpected), Some(DriftKind::Unexpected)),
        (file(0o644, b"x", false), Some(DriftKind::Unexpected), Some(DriftKind::Unexpected)),
    ] {
        assert_eq!(drop_in.drift(&node, &ObservedPaths::new()), of_drop_in, "{node:?}");
        assert_eq!(FileEntry::Absent.drift(&node, &ObservedPaths::new()), of_unit, "{node:?}");
    }
}

#[test]
fn absent_path_is_not_mislabelled() {
    let labelled = |label: Option<&str>| {
        let extended = XattrSummary { label: label.map(str::to_owned), foreign: false };
        PathState::Directory { attributes: ATTRIBUTES, extended }
    };
    assert!(!labelled(Some("etc_t")).is_mislabelled("etc_t"));
    assert!(labelled(Some("tmp_t")).is_mislabelled("etc_t"));
    assert!(labelled(None).is_mislabelled("etc_t"));
    assert!(!PathState::Absent.is_mislabelled("etc_t") && !PathState::Other.is_mislabelled("etc_t"));
}
