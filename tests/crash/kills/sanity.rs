//! Sanity of the verdict: it rejects trees that are neither old nor new.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use testbed::model::verdict::Verdict;
use testbed::strace;

use crate::kills::bench::{Bench, Pair};
use crate::kills::require_all;

/// Change to a tree that must be rejected.
type Tampering = fn(&std::path::Path);

const TAMPERINGS: [(&str, Tampering); 7] = [
    ("content", |root| fs::write(root.join("etc/same.conf"), "other\n").unwrap()),
    ("mode", |root| fs::set_permissions(root.join("etc/same.conf"), Permissions::from_mode(0o600)).unwrap()),
    ("owner", |root| chown(root.join("etc/same.conf"), Some(7), None).unwrap()),
    ("a file more", |root| fs::write(root.join("etc/more"), "").unwrap()),
    ("a file less", |root| fs::remove_file(root.join("etc/same.conf")).unwrap()),
    ("a staging directory", |root| fs::create_dir(root.join("var/.flameholder.d")).unwrap()),
    ("a link", |root| {
        fs::remove_file(root.join("etc/pointer")).unwrap();
        symlink("elsewhere", root.join("etc/pointer")).unwrap();
    }),
];

#[test]
fn tampered_tree_is_neither_old_nor_new() {
    require_all();
    let pair = Pair::new();
    for (what, tamper) in TAMPERINGS {
        let bench = Bench::on_the_left(&pair);
        assert_eq!(bench.verdict(), Verdict::Old, "{what}");
        tamper(bench.root());
        assert!(matches!(bench.verdict(), Verdict::Neither { .. }), "{what} is not noticed");
    }
}

#[test]
fn file_rewritten_with_equal_content_is_not_old() {
    require_all();
    let pair = Pair::new();
    let bench = Bench::on_the_left(&pair);
    let path = bench.root().join("etc/same.conf");
    fs::copy(&path, bench.root().join("etc/copy")).unwrap();
    fs::rename(bench.root().join("etc/copy"), path).unwrap();
    assert!(matches!(bench.verdict(), Verdict::Neither { .. }));
}

#[test]
fn other_config_is_not_the_expected_one() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    bench.go_on();
    // The tree is on the right, and the next expected side is the left.
    assert_eq!(bench.verdict(), Verdict::Old);
    bench.before.clear();
    assert!(matches!(bench.verdict(), Verdict::Neither { .. }));
}

/// Without `recover` a kill among the renames leaves a mixed tree.
#[test]
fn change_without_recovery_is_neither_old_nor_new() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    let renames = bench.go_on_traced().into_iter().filter(|call| call.name == "renameat2").count();
    bench.go_on();
    let mixed: Vec<bool> = (2..=renames)
        .map(|number| {
            let outcome = strace::run_single_threaded(
                &strace::injection("renameat2", number, "KILL"),
                &bench.applying(),
            );
            assert_eq!(outcome.code, None, "{outcome:?}");
            let verdict = bench.visible_verdict();
            bench.recover("renameat2");
            matches!(verdict, Verdict::Neither { .. })
        })
        .collect();
    // The first renames move nothing visible, and then pre-images, which readers do not open.
    let first = mixed.iter().position(|mixed| *mixed).unwrap();
    assert!(first < 6 && mixed[first..].iter().all(|mixed| *mixed), "{mixed:?}");
}
