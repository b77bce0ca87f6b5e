//! Links that exist before an apply.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use serde_json::{Value, json};
use testbed::model::applied_tree::{AppliedTree, apply};
use testbed::model::document::{file, with_files};
use testbed::model::run::Outcome;
use testbed::model::snapshot;
use testbed::model::tree::CORE;

/// Plant a link, and return the path of a file that a config then lists.
type Plant = fn(&AppliedTree, &Path) -> &'static str;

fn link(host: &AppliedTree, path: &str, target: impl AsRef<Path>) {
    let at = host.tree.at(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(target, at).unwrap();
}

/// Links that must not be followed.
const REFUSED: [(&str, Plant); 11] = [
    ("outside, absolutely", |host, outside| {
        link(host, "etc/foo", outside);
        "/etc/foo/file"
    }),
    ("above the root", |host, _| {
        link(host, "etc/foo", "../..");
        "/etc/foo/file"
    }),
    ("out and in again", |host, _| {
        let name = host.tree.root().file_name().unwrap();
        link(host, "etc/foo", Path::new("../..").join(name).join("var"));
        "/etc/foo/file"
    }),
    ("a chain whose end leaves", |host, outside| {
        link(host, "etc/foo", "foo.2");
        link(host, "etc/foo.2", "foo.3");
        link(host, "etc/foo.3", outside);
        "/etc/foo/file"
    }),
    ("a loop", |host, _| {
        link(host, "etc/foo", "foo.2");
        link(host, "etc/foo.2", "foo");
        "/etc/foo/file"
    }),
    ("a link through a link that leaves", |host, _| {
        link(host, "etc/foo", "bar/var");
        link(host, "etc/bar", "../..");
        "/etc/foo/file"
    }),
    ("where all may write", |host, _| {
        host.tree.directory("/etc/open");
        fs::set_permissions(host.tree.at("/etc/open"), fs::Permissions::from_mode(0o777)).unwrap();
        link(host, "etc/open/foo", "../sudoers.d");
        "/etc/open/foo/file"
    }),
    ("where all may write what is their own", |host, _| {
        host.tree.directory("/var/tmp");
        fs::set_permissions(host.tree.at("/var/tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        link(host, "var/tmp/foo", "../../etc");
        "/var/tmp/foo/file"
    }),
    ("where a group may write", |host, _| {
        host.tree.directory("/etc/group.d");
        fs::set_permissions(host.tree.at("/etc/group.d"), fs::Permissions::from_mode(0o775)).unwrap();
        link(host, "etc/group.d/foo", "../sudoers.d");
        "/etc/group.d/foo/file"
    }),
    ("where all may write, absolutely", |host, _| {
        host.tree.directory("/etc/open");
        fs::set_permissions(host.tree.at("/etc/open"), fs::Permissions::from_mode(0o777)).unwrap();
        link(host, "etc/open/foo", "/etc/sudoers.d");
        "/etc/open/foo/file"
    }),
    ("a link of root's that leads through one of core's", |host, _| {
        link(host, "etc/foo", "../var/home/core/way");
        link(host, "var/home/core/way", "../../../etc");
        "/etc/foo/file"
    }),
];

/// Links with which root arranges a tree.
const FOLLOWED: [(&str, Plant, &str); 6] = [
    (
        "the root, absolutely",
        |host, _| {
            link(host, "etc/foo", "/");
            "/etc/foo/file"
        },
        "/file",
    ),
    (
        "inside, absolutely",
        |host, _| {
            link(host, "etc/foo", "/var/lib");
            "/etc/foo/file"
        },
        "/var/lib/file",
    ),
    (
        "a link through the root",
        |host, _| {
            link(host, "etc/foo", "bar/var");
            link(host, "etc/bar", "/");
            "/etc/foo/file"
        },
        "/var/file",
    ),
    (
        "the root, relatively",
        |host, _| {
            link(host, "etc/foo", "..");
            "/etc/foo/file"
        },
        "/file",
    ),
    (
        "a chain inside",
        |host, _| {
            link(host, "etc/foo", "foo.2");
            link(host, "etc/foo.2", "../var/lib");
            "/etc/foo/file"
        },
        "/var/lib/file",
    ),
    ("as the image has it", |_, _| "/usr/local/etc/file", "/var/usrlocal/etc/file"),
];

/// Host, planted path, outcome of the apply, and changes in the tree outside.
fn attempt(plant: Plant) -> (AppliedTree, &'static str, Outcome, Vec<String>) {
    let mut host = AppliedTree::new();
    let outside = tempfile::tempdir().unwrap();
    host.tree.directory("/etc/sudoers.d");
    let wanted = plant(&host, outside.path());
    let desired = host.documents.path().join("desired.json");
    let config = with_files("rendered-next", &[file("/etc/before", "1"), file(wanted, "2")]);
    fs::write(&desired, config.to_string()).unwrap();
    host.before = snapshot::take(host.tree.root());
    let before = snapshot::take(outside.path());
    let outcome = apply(host.tree.root(), &desired);
    let changed = snapshot::changes(&before, &snapshot::take(outside.path()));
    (host, wanted, outcome, changed)
}

#[test]
fn unsafe_links_are_refused_by_name() {
    testbed::preconditions::require_root();
    for (name, plant) in REFUSED {
        let (host, wanted, outcome, changed) = attempt(plant);
        let link = Path::new(wanted).parent().unwrap().to_str().unwrap();
        assert_eq!(outcome.code, Some(1), "{name}: {outcome:?}");
        assert!(outcome.stderr.contains(link), "{name}: {outcome:?}");
        assert_eq!(changed, [""; 0], "{name}");
        assert_eq!(host.unexpected_changes(), [""; 0], "{name}");
    }
}

#[test]
fn root_owned_links_beneath_the_root_are_followed() {
    testbed::preconditions::require_root();
    for (name, plant, place) in FOLLOWED {
        let (host, _, outcome, changed) = attempt(plant);
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
        assert_eq!(changed, [""; 0], "{name}");
        assert_eq!(fs::read_to_string(host.tree.at(place)).unwrap(), "2", "{name}");
        assert!(!host.tree.at(place).symlink_metadata().unwrap().is_symlink(), "{name}");
    }
}

/// The directory of the keys is in a home that its user may arrange freely.
#[test]
fn keys_do_not_follow_a_link_of_the_user() {
    testbed::preconditions::require_root();
    for target in ["/etc", "../../../etc", "/", ".ssh"] {
        let mut host = AppliedTree::new();
        let ssh = host.tree.at("/var/home/core/.ssh");
        let none = host.documents.path().join("none.json");
        fs::write(&none, with_files("rendered-none", &[]).to_string()).unwrap();
        assert_eq!(apply(host.tree.root(), &none).code, Some(0));
        assert!(!ssh.exists(), "the directory of the keys is removed with them");
        symlink(target, &ssh).unwrap();
        std::os::unix::fs::lchown(&ssh, Some(CORE), Some(CORE)).unwrap();
        chown(ssh.parent().unwrap(), Some(CORE), Some(CORE)).unwrap();
        let mut config: Value = with_files("rendered-next", &[file("/etc/before", "1")]);
        let core = json!({"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAA"]});
        config["spec"]["config"]["passwd"] = json!({"users": [core]});
        let desired = host.documents.path().join("desired.json");
        fs::write(&desired, config.to_string()).unwrap();
        host.before = snapshot::take(host.tree.root());
        let outcome = apply(host.tree.root(), &desired);
        assert_eq!(outcome.code, Some(1), "{target}: {outcome:?}");
        assert!(outcome.stderr.contains("/var/home/core/.ssh"), "{target}: {outcome:?}");
        assert_eq!(host.unexpected_changes(), [""; 0], "{target}");
    }
}
