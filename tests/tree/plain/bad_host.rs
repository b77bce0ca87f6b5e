//! Hosts on which a good config cannot be applied: the error names the obstacle, and the tree is unchanged.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde_json::Value;
use testbed::model::applied_tree::{AppliedTree, apply, outcome_complaints};
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder, launch};
use testbed::model::snapshot::{Body, Snapshot};
use testbed::model::{snapshot, tree};

const FAILED: i32 = 1;
const BUSY: i32 = 75;
const REFUSED: i32 = 78;

/// Tree with an applied config.
fn applied_tree() -> AppliedTree {
    testbed::preconditions::require_root();
    AppliedTree::new()
}

/// Write a config with these files beside the tree.
fn document(host: &AppliedTree, files: &[Value]) -> PathBuf {
    let path = host.documents.path().join("desired.json");
    fs::write(&path, with_files("rendered-next", files).to_string()).expect("a config");
    path
}

/// Call `obstruct`, apply a file at `target`, and panic unless that fails with `mention` in the error and
/// leaves the tree unchanged.
fn assert_obstructed(obstruct: impl FnOnce(&AppliedTree), target: &str, mention: &str) {
    let mut host = applied_tree();
    obstruct(&host);
    host.before = snapshot::take(host.tree.root());
    // A file that could be written comes first, and the config also changes and removes one.
    let files = [file("/etc/before.conf", "1"), file("/etc/managed.conf", "changed"), file(target, "2")];
    let desired = document(&host, &files);
    let mut complaints = outcome_complaints(&apply(host.tree.root(), &desired), FAILED, &[mention]);
    complaints.extend(host.unexpected_changes());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn parent_link_out_of_the_root_is_not_followed() {
    for absolute in [true, false] {
        let outside = tempfile::tempdir().expect("a temporary directory");
        let target = outside.path().to_str().expect("UTF-8");
        let target = if absolute { target.to_owned() } else { format!("../../../../../../../..{target}") };
        assert_obstructed(|host| host.tree.link("etc/out", &target), "/etc/out/file", "etc/out");
        assert_eq!(
            fs::read_dir(outside.path()).unwrap().count(),
            0,
            "a file was written outside of the root"
        );
    }
}

#[test]
fn parent_link_to_itself_is_not_followed() {
    assert_obstructed(|host| host.tree.link("etc/loop", "loop"), "/etc/loop/file", "etc/loop");
}

#[test]
fn nonempty_directory_is_not_replaced() {
    let fill = |host: &AppliedTree| host.tree.file("etc/full/x", 0o600, (0, 0), b"precious");
    assert_obstructed(fill, "/etc/full", "/etc/full");
}

#[test]
fn foreign_file_is_not_replaced_by_a_directory() {
    assert_obstructed(|_| {}, "/etc/unmanaged.conf/below", "etc/unmanaged.conf");
}

#[test]
fn unknown_owner_is_refused() {
    let host = applied_tree();
    let mut entry = file("/etc/x", "x");
    entry["user"] = serde_json::json!({"name": "stranger"});
    let outcome = apply(host.tree.root(), &document(&host, &[entry]));
    assert!(outcome.code.is_some_and(|code| code == FAILED || code == REFUSED), "{outcome:?}");
    let mut complaints = outcome_complaints(&outcome, outcome.code.unwrap(), &["stranger"]);
    complaints.extend(host.unexpected_changes());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn read_only_file_system_is_named() {
    let host = applied_tree();
    let desired = document(&host, &[file("/etc/x", "x")]);
    let root = host.tree.root().to_str().unwrap();
    let outcome = in_namespace(
        r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$0" apply --root "$1" --desired "$2""#,
        &[root, desired.to_str().unwrap()],
    );
    let mut complaints = outcome_complaints(&outcome, FAILED, &["/var/lib/flameholder"]);
    complaints.extend(host.unexpected_changes());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn full_disk_leaves_the_tree_unchanged() {
    let host = applied_tree();
    // Together the files exceed the file system below; one alone does not.
    let large = "x".repeat(400_000);
    let files: Vec<Value> = (0..8).map(|n| file(&format!("/etc/large/{n}"), &large)).collect();
    let desired = document(&host, &[vec![file("/etc/managed.conf", "changed")], files].concat());
    let copies = tempfile::tempdir().expect("a temporary directory");
    let [before, after] = ["before", "after"].map(|name| copies.path().join(name));
    // The tree on the small file system is copied back, because its mount ends with the namespace.
    let script = r#"small=$(mktemp -d) && trap 'rmdir "$small"' EXIT && mount -t tmpfs -o size=2m,mode=755 small "$small" &&
        cp -a "$1/." "$small" && cp -a "$small" "$3" && { "$0" apply --root "$small" --desired "$2"; code=$?
        cp -a "$small" "$4"; "$0" verify --root "$small" >/dev/null || echo "verify: $?"; umount "$small"; exit $code; }"#;
    let paths = [host.tree.root(), &desired, &before, &after].map(|path| path.to_str().unwrap());
    let outcome = in_namespace(script, &paths);
    let mut complaints = outcome_complaints(&outcome, FAILED, &["/etc/large|No space"]);
    if outcome.stdout.contains("verify:") {
        complaints.push(format!("verify finds drift from the applied config: {}", outcome.stdout));
    }
    let [was, is] = [before, after].map(|copy| contents(&snapshot::take(&copy)));
    complaints.extend(was.iter().filter(|node| !is.contains(node)).map(|node| format!("lost: {node}")));
    complaints.extend(is.iter().filter(|node| !was.contains(node)).map(|node| format!("remains: {node}")));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Paths and nodes, without the product's own records and empty staging directories.
fn contents(tree: &Snapshot) -> Vec<String> {
    let staging = |path: &str, body: &Body| *body == Body::Directory && path.ends_with(".flameholder.d");
    let nodes = tree
        .iter()
        .filter(|(path, (node, _))| !path.starts_with("var/lib/flameholder") && !staging(path, &node.body));
    nodes.map(|(path, (node, _))| format!("{path}: {node:?}")).collect()
}

/// Run a shell script, with the executable under test as `$0`, in a new mount namespace.
fn in_namespace(script: &str, arguments: &[&str]) -> Outcome {
    testbed::preconditions::require_mount_namespaces();
    let shell = ["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_flameholder")];
    launch("unshare", shell.iter().chain(arguments))
}

#[test]
fn second_apply_names_the_holder_of_the_lock() {
    let host = applied_tree();
    let desired = document(&host, &[file("/etc/x", "x")]);
    let lock = host.tree.at(snapshot::LOCK);
    let mut lock = OpenOptions::new().read(true).write(true).open(lock).expect("the lock of the first apply");
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("a free lock");
    let pid = std::process::id().to_string();
    lock.set_len(0).expect("an empty lock");
    writeln!(lock, "{pid}").expect("a note of who holds it");
    let mut complaints = outcome_complaints(&apply(host.tree.root(), &desired), BUSY, &[&pid]);
    complaints.extend(host.unexpected_changes());
    drop(lock);
    complaints.extend(outcome_complaints(&apply(host.tree.root(), &desired), 0, &[]));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn missing_root_and_missing_config_are_named() {
    let host = applied_tree();
    let desired = document(&host, &[file("/etc/x", "x")]);
    let mut complaints =
        outcome_complaints(&apply(Path::new("/nonexistent/root"), &desired), FAILED, &["/nonexistent/root"]);
    let missing = host.documents.path().join("missing.json");
    complaints.extend(outcome_complaints(&apply(host.tree.root(), &missing), FAILED, &["missing.json"]));
    let empty = host.documents.path().join("empty");
    fs::create_dir(&empty).expect("a directory");
    complaints.extend(outcome_complaints(
        &apply(host.tree.root(), &empty),
        REFUSED,
        &[empty.to_str().unwrap()],
    ));
    complaints.extend(host.unexpected_changes());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn unprivileged_user_is_refused() {
    let host = applied_tree();
    let desired = document(&host, &[file("/etc/x", "x")]);
    fs::set_permissions(host.documents.path(), Permissions::from_mode(0o755)).expect("a mode");
    // A copy, because the folders above the build may be closed to other users.
    let program = host.documents.path().join("flameholder");
    fs::copy(env!("CARGO_BIN_EXE_flameholder"), &program).expect("a copy");
    let unprivileged = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    testbed::preconditions::require_installed(&["setpriv"]);
    let root = host.tree.root().to_str().unwrap();
    let line = [program.to_str().unwrap(), "apply", "--root", root, "--desired", desired.to_str().unwrap()];
    let outcome = launch("setpriv", unprivileged.iter().chain(&line));
    let mut complaints = outcome_complaints(&outcome, FAILED, &["/var/lib/flameholder"]);
    complaints.extend(host.unexpected_changes());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn files_are_applied_without_the_user_core() {
    let host = applied_tree();
    let tree = tree::Tree::new();
    for (path, mode) in [("etc/passwd", 0o644), ("etc/group", 0o644), ("etc/shadow", 0)] {
        let text = fs::read_to_string(tree.at(path)).expect("a database");
        let others = text.lines().filter(|line| !line.starts_with("core:")).map(|line| format!("{line}\n"));
        tree.file(path, mode, (0, 0), others.collect::<String>().as_bytes());
    }
    let mut config = with_files("rendered-next", &[file("/etc/x", "x")]);
    let core =
        serde_json::json!({"name": "core", "passwordHash": "$6$x", "sshAuthorizedKeys": ["ssh-rsa A"]});
    config["spec"]["config"]["passwd"] = serde_json::json!({"users": [core]});
    let desired = host.documents.path().join("desired.json");
    fs::write(&desired, config.to_string()).expect("a config");
    let root = tree.root().as_os_str();
    let line = ["plan".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), desired.as_os_str()];
    let outcome = flameholder(line.into_iter().chain(["-o".as_ref(), "json".as_ref()]));
    let plan: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    assert!(plan["unsupported"].to_string().contains("core"), "{plan}");
    let home = snapshot::take(&tree.at("var/home"));
    let mut complaints = outcome_complaints(&apply(tree.root(), &desired), 0, &[]);
    complaints.extend(snapshot::changes(&home, &snapshot::take(&tree.at("var/home"))));
    assert!(tree.at("etc/x").is_file(), "the file is applied without the user");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn plan_changes_nothing() {
    let host = applied_tree();
    let desired = document(&host, &[file("/etc/x", "x")]);
    let lock =
        || fs::metadata(host.tree.at(snapshot::LOCK)).and_then(|meta| meta.modified()).expect("the lock");
    let locked = lock();
    let root = host.tree.root().as_os_str();
    let outcome =
        flameholder(["plan".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), desired.as_os_str()]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(lock(), locked, "the plan took the lock");
    let complaints = host.unexpected_changes();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
