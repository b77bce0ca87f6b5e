//! The judge itself: it finds fault where there is fault to find.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use crate::kills::bench::{Bench, Pair};
use crate::kills::require_all;
use testbed::model::judge::Verdict;
use testbed::strace;

/// A change to a tree, made by nobody that a judge should trust.
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
fn whatever_is_tampered_with_is_neither_old_nor_new() {
    require_all();
    let pair = Pair::new();
    for (what, tamper) in TAMPERINGS {
        let bench = Bench::on_the_left(&pair);
        assert_eq!(bench.verdict(), Verdict::Old, "{what}");
        tamper(bench.root());
        assert!(matches!(bench.verdict(), Verdict::Neither { .. }), "{what} is overlooked");
    }
}

#[test]
fn a_file_that_was_written_again_alike_is_not_the_old_one() {
    require_all();
    let pair = Pair::new();
    let bench = Bench::on_the_left(&pair);
    let path = bench.root().join("etc/same.conf");
    fs::copy(&path, bench.root().join("etc/copy")).unwrap();
    fs::rename(bench.root().join("etc/copy"), path).unwrap();
    assert!(matches!(bench.verdict(), Verdict::Neither { .. }));
}

#[test]
fn the_other_side_is_not_the_wanted_one() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    bench.go_on();
    // The tree is on the right, and what is expected next is the left.
    assert_eq!(bench.verdict(), Verdict::Old);
    bench.before.clear();
    assert!(matches!(bench.verdict(), Verdict::Neither { .. }));
}

/// Without `recover` a kill among the moves leaves what no judge may pass.
#[test]
fn a_change_that_nobody_settles_is_neither_old_nor_new() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    let renames = bench.go_on_traced().into_iter().filter(|call| call.name == "renameat2").count();
    bench.go_on();
    let mixed: Vec<bool> = (2..=renames)
        .map(|number| {
            let outcome = strace::alone(&strace::place("renameat2", number, "KILL"), &bench.applying());
            assert_eq!(outcome.code, None, "{outcome:?}");
            let verdict = bench.visible_verdict();
            bench.settle("renameat2");
            matches!(verdict, Verdict::Neither { .. })
        })
        .collect();
    // At first nothing was moved yet, and then pre-images, at which others do not look.
    let first = mixed.iter().position(|mixed| *mixed).unwrap();
    assert!(first < 6 && mixed[first..].iter().all(|mixed| *mixed), "{mixed:?}");
}
