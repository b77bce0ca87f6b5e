//! Tests with small trees written by hand; `tests/etc_merge` compares generated trees with libostree itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::core::values::tree::{ChangeKind, ContentDigest, FileAttributes};

const FIFO: u32 = 0o010_000;

fn node(mode: u32, body: EtcBody) -> EtcNode {
    EtcNode { attributes: FileAttributes { mode, uid: 0, gid: 0 }, xattrs: XattrDigests::new(), body }
}

fn file(text: &str) -> EtcNode {
    let digest = Some(ContentDigest::of(text.as_bytes()));
    node(0o644, EtcBody::File(FileContent { size: text.len() as u64, digest }))
}

fn link(target: &str) -> EtcNode {
    node(0o777, EtcBody::Symlink(target.into()))
}

fn directory(mode: u32) -> EtcNode {
    node(mode, EtcBody::Directory(EtcEntries::new()))
}

/// Build a tree from paths, parents before children.
fn tree(nodes: &[(&str, EtcNode)]) -> EtcNode {
    let mut top = directory(0o755);
    for (path, node) in nodes {
        let path = Path::new(path);
        let parent = top.at_mut(path.parent().unwrap()).unwrap();
        parent.entries_mut().unwrap().insert(path.file_name().unwrap().into(), node.clone());
    }
    top
}

fn merge(base: &[(&str, EtcNode)], local: &[(&str, EtcNode)], new: &[(&str, EtcNode)]) -> EtcMerge {
    EtcMerge::of(&tree(base), &tree(local), &tree(new), SpecialFiles::Refused)
}

fn refusals(merge: &EtcMerge) -> Vec<(&str, RefusalReason)> {
    let refusals = merge.findings.refusals.iter();
    refusals.map(|refusal| (refusal.path.to_str().unwrap(), refusal.reason)).collect()
}

fn losses(merge: &EtcMerge) -> Vec<(&str, LostPart)> {
    merge.findings.losses.iter().map(|loss| (loss.path.to_str().unwrap(), loss.lost)).collect()
}

#[test]
fn local_changes_win_over_changes_of_the_image() {
    let merged = merge(
        &[("both", file("0")), ("gone", file("0")), ("image", file("0")), ("mine", file("0"))],
        &[("both", file("1")), ("image", file("0")), ("mine", file("1")), ("new", file("1"))],
        &[("both", file("2")), ("gone", file("2")), ("image", file("2")), ("mine", file("0"))],
    );
    let expected =
        tree(&[("both", file("1")), ("image", file("2")), ("mine", file("1")), ("new", file("1"))]);
    assert_eq!(merged.outcome(), Ok(&expected));
    let item = |path: &str, change| MergeItem { path: path.into(), change };
    let conflict = |path: &str, local| MergeConflict { path: path.into(), local, image: ChangeKind::Modify };
    let findings = MergeFindings {
        kept: vec![item("mine", ChangeKind::Modify), item("new", ChangeKind::Add)],
        from_image: vec![item("image", ChangeKind::Modify)],
        conflicts: vec![conflict("both", ChangeKind::Modify), conflict("gone", ChangeKind::Remove)],
        ..MergeFindings::default()
    };
    assert_eq!(merged.findings, findings);
}

#[test]
fn differences_are_listed_by_directory_entries() {
    let left = tree(&[
        ("both", directory(0o755)),
        ("both/other", file("1")),
        ("both/same", file("1")),
        ("empty", directory(0o755)),
        ("left", directory(0o755)),
        ("left/file", file("1")),
    ]);
    let right = tree(&[
        ("both", directory(0o700)),
        ("both/other", file("2")),
        ("both/same", file("1")),
        ("left", link("both")),
    ]);
    let expected = ["both", "both/other", "empty", "left", "left/file"].map(PathBuf::from);
    assert_eq!(differing_paths(&left, &right), expected);
    assert_eq!(differing_paths(&right, &left), expected);
    assert!(differing_paths(&left, &left).is_empty());
}

#[test]
fn file_in_place_of_an_image_directory_is_refused() {
    let merged = merge(
        &[("d", directory(0o755)), ("d/f", file("0"))],
        &[("d", link("elsewhere")), ("e", file("1"))],
        &[("d", directory(0o755)), ("d/f", file("0")), ("e", directory(0o755))],
    );
    assert_eq!(
        refusals(&merged),
        [("d", RefusalReason::NewlyDirectory), ("e", RefusalReason::NewlyDirectory)]
    );
    let said = merged.outcome().unwrap_err().to_string();
    assert!(said.starts_with("/etc/d is not a directory") && said.contains("move it away"), "{said}");
}

#[test]
fn changes_below_a_former_directory_are_refused() {
    let base = [("d", directory(0o755)), ("d/f", file("0")), ("d/g", file("0"))];
    let local = [("d", directory(0o755)), ("d/f", file("1"))];
    for (new, reason) in [
        (vec![("d", file("2"))], RefusalReason::NotADirectory),
        (vec![("d", link("/run/d"))], RefusalReason::LeavingLink),
        (vec![("d", link("../usr/d"))], RefusalReason::LeavingLink),
        (vec![("d", link("d"))], RefusalReason::DanglingLink),
    ] {
        let merged = merge(&base, &local, &new);
        assert_eq!(refusals(&merged), [("d/g", reason), ("d/f", reason)]);
    }
    let dangling = merge(&base, &local, &[("d", link("nowhere"))]);
    assert_eq!(
        refusals(&dangling),
        [("d/f", RefusalReason::DanglingLink)],
        "the removed path does not exist"
    );
}

#[test]
fn symbolic_link_in_the_image_is_followed() {
    let merged = merge(
        &[("d", directory(0o755)), ("d/f", file("0"))],
        &[("d", directory(0o700)), ("d/f", file("0")), ("d/g", file("1"))],
        &[("d", link("e")), ("e", directory(0o755))],
    );
    // The directory's own mode is a change: it is copied over the link before anything in it.
    assert_eq!(
        merged.outcome(),
        Ok(&tree(&[
            ("d", directory(0o700)),
            ("d/f", file("0")),
            ("d/g", file("1")),
            ("e", directory(0o755))
        ]))
    );
    let followed = merge(
        &[("d", directory(0o700)), ("d/f", file("0"))],
        &[("d", directory(0o700)), ("d/f", file("1"))],
        &[("d", link("e")), ("e", directory(0o755))],
    );
    let expected = tree(&[("d", link("e")), ("e", directory(0o700)), ("e/f", file("1"))]);
    assert_eq!(followed.outcome(), Ok(&expected));
}

#[test]
fn directory_mode_is_kept_only_if_an_entry_changed() {
    let base = [("d", directory(0o755)), ("e", directory(0o755))];
    let local = [("d", directory(0o700)), ("e", directory(0o700)), ("e/f", file("1"))];
    let merged = merge(&base, &local, &base);
    let expected = tree(&[("d", directory(0o755)), ("e", directory(0o700)), ("e/f", file("1"))]);
    assert_eq!(merged.outcome(), Ok(&expected));
    assert_eq!(losses(&merged), [("d", LostPart::DirectoryAttributes)]);
}

#[test]
fn image_mode_of_a_changed_directory_is_not_taken() {
    let merged = merge(
        &[("d", directory(0o755))],
        &[("d", directory(0o755)), ("d/f", file("1"))],
        &[("d", directory(0o700))],
    );
    assert_eq!(merged.result.at(Path::new("d")).unwrap().attributes.mode, 0o755);
    assert_eq!(
        merged.findings.not_taken,
        [MergeItem { path: PathBuf::from("d"), change: ChangeKind::Modify }]
    );
}

#[test]
fn files_in_a_new_directory_are_lost_if_the_image_adds_it_too() {
    let merged = merge(
        &[("d", file("0"))],
        &[("d", directory(0o755)), ("d/f", file("1"))],
        &[("d", directory(0o755)), ("d/g", file("2"))],
    );
    assert_eq!(merged.outcome(), Ok(&tree(&[("d", directory(0o755)), ("d/g", file("2"))])));
    assert_eq!(losses(&merged), [("d/f", LostPart::Everything)]);
}

#[test]
fn special_files_are_ignored_or_refused() {
    let pipe = || node(FIFO | 0o644, EtcBody::Special(FIFO));
    let base = [("f", file("0"))];
    let alone = merge(&base, &[("f", pipe()), ("g", pipe())], &base);
    assert_eq!(alone.outcome(), Ok(&tree(&[])));
    assert_eq!(losses(&alone), [("f", LostPart::SpecialFile), ("g", LostPart::SpecialFile)]);

    let local = [("d", directory(0o755)), ("d/f", file("1")), ("d/p", pipe())];
    let older = merge(&[], &local, &[]);
    assert_eq!(refusals(&older), [("d/p", RefusalReason::SpecialFile)]);
    let newer = EtcMerge::of(&tree(&[]), &tree(&local), &tree(&[]), SpecialFiles::Ignored);
    assert_eq!(newer.outcome(), Ok(&tree(&[("d", directory(0o755)), ("d/f", file("1"))])));
    assert_eq!(losses(&newer), [("d/p", LostPart::SpecialFile)]);
}

#[test]
fn changes_of_only_extended_attributes_are_lost() {
    let marked = |mut node: EtcNode, value: &str| {
        node.xattrs = BTreeMap::from([(b"user.mark".to_vec(), ContentDigest::of(value.as_bytes()))]);
        node
    };
    let base = [("d", directory(0o755)), ("f", file("0")), ("g", file("0"))];
    let local =
        [("d", marked(directory(0o755), "1")), ("f", marked(file("0"), "1")), ("g", marked(file("1"), "1"))];
    let merged = merge(&base, &local, &base);
    let expected = tree(&[("d", directory(0o755)), ("f", file("0")), ("g", marked(file("1"), "1"))]);
    assert_eq!(merged.outcome(), Ok(&expected));
    assert_eq!(losses(&merged), [("d", LostPart::Xattrs), ("f", LostPart::Xattrs)]);
}
