//! Many applies in a row leave nothing behind.

use std::collections::BTreeSet;

use serde_json::json;
use testbed::model::document::{file, with_files};
use testbed::model::run::{launch, program};
use testbed::model::snapshot::{self, Body};

use crate::locks::host::Host;

/// Number of changes from one config to the other and back.
fn rounds() -> usize {
    if testbed::is_exhaustive() { 500 } else { 150 }
}

/// Every path, and the total size of all files. The size of a directory depends on the file system and is
/// left out.
fn extent(host: &Host) -> (BTreeSet<String>, usize) {
    let seen = snapshot::take(host.tree.root());
    let bytes = seen.values().map(|(node, _)| match &node.body {
        Body::File(bytes) => bytes.len(),
        _ => 0,
    });
    // The process ID in the lock may have one digit more.
    let lock = seen.get(snapshot::LOCK).map_or(0, |(node, _)| match &node.body {
        Body::File(bytes) => bytes.len(),
        _ => 0,
    });
    (seen.keys().cloned().collect(), bytes.sum::<usize>() - lock)
}

#[test]
fn alternating_configs_leave_nothing_behind() {
    let (mut left, mut right) = (
        with_files(
            "rendered-left",
            &[file("/etc/both", "left"), file("/etc/admin.conf", "left"), file("/etc/a/b", "x")],
        ),
        with_files(
            "rendered-right",
            &[file("/etc/both", "right"), file("/etc/a", "x"), file("/etc/login.defs", "y")],
        ),
    );
    let unit = json!({"name": "own.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"});
    left["spec"]["config"]["systemd"] =
        json!({"units": [unit, {"name": "zincati.service", "enabled": false}]});
    right["spec"]["config"]["passwd"] =
        json!({"users": [{"name": "core", "passwordHash": "$6$a$b", "sshAuthorizedKeys": ["ssh-rsa AAAA"]}]});
    let host = Host::new(&left, &right);
    let round = || {
        for desired in [&host.right, &host.left] {
            host.applies(desired);
        }
        extent(&host)
    };
    let first = round();
    for number in 1..rounds() {
        assert_eq!(round(), first, "round {number}");
    }
}

/// With one descriptor per file or directory, the limit would be exceeded.
#[test]
fn descriptors_are_closed() {
    const FILES: usize = 300;
    let files = |text: &str| -> Vec<_> {
        (0..FILES).map(|number| file(&format!("/etc/many/{number}/file"), text)).collect()
    };
    let (left, right) = (with_files("rendered-left", &files("1")), with_files("rendered-right", &files("2")));
    let host = Host::new(&left, &right);
    // Each of the 32 flushing threads needs two descriptors.
    let script = r#"ulimit -n 100 && exec "$0" "$@""#;
    for desired in [&host.right, &host.left] {
        let program = program();
        let line = [vec!["-c", script, &program], host.line("apply", Some(desired))].concat();
        let outcome = launch("sh", line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}
