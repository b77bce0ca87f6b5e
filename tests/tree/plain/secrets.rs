//! Secrets of a config appear neither in the output of a command nor in a file that all users can read.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testbed::model::applied_tree::{AppliedTree, apply, outcome_complaints};
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::snapshot;
use testbed::model::snapshot::Body;

/// Secrets of each kind: those of the first config and those of the second.
const SECRETS: [[&str; 3]; 2] = [
    ["pullSecretOfTheFirst", "$6$saltOfTheFirst$hashOfTheFirst", "privateKeyOfTheFirst"],
    ["pullSecretOfTheSecond", "$6$saltOfTheSecond$hashOfTheSecond", "privateKeyOfTheSecond"],
];

/// Config with these secrets: pull secret, password hash, private key.
fn config([pull, hash, key]: [&str; 3]) -> Value {
    let closed = |path: &str, text: &str| {
        let mut entry = file(path, text);
        entry["mode"] = json!(0o600);
        // Unencoded, so that an error which quoted the source would show the secret.
        entry["contents"]["source"] = json!(format!("data:,{text}"));
        entry
    };
    let files = [closed("/var/lib/kubelet/config.json", pull), closed("/etc/pki/key.pem", key)];
    let mut config = with_files("rendered-secret", &files);
    let core = json!({"name": "core", "passwordHash": hash, "sshAuthorizedKeys": ["ssh-rsa AAAA"]});
    config["spec"]["config"]["passwd"] = json!({"users": [core]});
    config
}

fn leaks(text: &str) -> Vec<&'static str> {
    SECRETS.as_flattened().iter().copied().filter(|secret| text.contains(*secret)).collect()
}

/// Run every command that reads two configs on a tree, with drift in between.
fn every_command(host: &AppliedTree, first: &Path, second: &Path) -> Vec<(&'static str, Outcome)> {
    let root = host.tree.root().as_os_str();
    let on_root = |verb: &str, more: &[&std::ffi::OsStr]| {
        flameholder([verb.as_ref(), "--root".as_ref(), root].into_iter().chain(more.iter().copied()))
    };
    let [desired, current, output, json] = ["--desired", "--current", "-o", "json"].map(AsRef::as_ref);
    let mut outcomes = vec![
        ("plan of the first", on_root("plan", &[desired, first.as_os_str()])),
        ("apply of the first", apply(host.tree.root(), first)),
        ("plan of the second", on_root("plan", &[desired, second.as_os_str()])),
        ("plan of the second in JSON", on_root("plan", &[desired, second.as_os_str(), output, json])),
    ];
    let pair = [current, first.as_os_str(), desired, second.as_os_str(), output, json];
    outcomes.push(("plan between", flameholder([AsRef::as_ref("plan")].into_iter().chain(pair))));
    outcomes.push((
        "plan between in text",
        flameholder([AsRef::as_ref("plan")].into_iter().chain(pair[..4].to_vec())),
    ));
    for path in ["var/lib/kubelet/config.json", "etc/pki/key.pem"] {
        host.tree.file(path, 0o644, (0, 0), b"drifted");
    }
    outcomes.push(("verify after drift", on_root("verify", &[])));
    outcomes.push(("plan after drift", on_root("plan", &[desired, first.as_os_str()])));
    outcomes.push(("apply of the second", apply(host.tree.root(), second)));
    outcomes
}

#[test]
fn secrets_are_neither_printed_nor_readable_by_all_users() {
    testbed::preconditions::require_root();
    let host = AppliedTree::new();
    let [first, second] = [0, 1].map(|index| {
        let path = host.documents.path().join(format!("secret-{index}.json"));
        fs::write(&path, config(SECRETS[index]).to_string()).expect("a config");
        path
    });
    let mut complaints = Vec::new();
    for (command, outcome) in every_command(&host, &first, &second) {
        let wanted = if command.starts_with("verify") { 2 } else { 0 };
        let wrong =
            outcome_complaints(&outcome, wanted, &[]).into_iter().map(|wrong| format!("{command} {wrong}"));
        complaints.extend(wrong);
        let leaked = leaks(&(outcome.stdout + &outcome.stderr));
        complaints.extend(leaked.iter().map(|secret| format!("{command} prints {secret}")));
    }
    let seen = snapshot::take(host.tree.root());
    let open = |path: &str| seen[path].0.mode & 0o001 != 0;
    for (path, (node, _)) in &seen {
        let Body::File(bytes) = &node.body else {
            continue;
        };
        let reachable =
            Path::new(path).ancestors().skip(1).all(|up| up == Path::new("") || open(up.to_str().unwrap()));
        if node.mode & 0o004 != 0 && reachable {
            let leaked = leaks(&String::from_utf8_lossy(bytes));
            complaints.extend(leaked.iter().map(|secret| format!("every user can read {secret} in {path}")));
        }
    }
    let record = &seen["etc/machine-config-daemon/currentconfig"].0;
    if record.mode & 0o007 != 0 {
        complaints.push(format!("every user can read currentconfig: {record:?}"));
    }
    complaints.extend(host.unexpected_changes().iter().filter(|wrong| wrong.starts_with("verify")).cloned());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn errors_do_not_quote_secrets() {
    let document = config(SECRETS[0]);
    let text = document.to_string();
    let in_secret = text.find(SECRETS[0][0]).expect("the secret") + SECRETS[0][0].len();
    let spoil = |pointer: &str, value: Value| {
        let mut document = document.clone();
        *document.pointer_mut(pointer).expect("a field") = value;
        document.to_string()
    };
    let source = "/spec/config/storage/files/0/contents/source";
    let [pull, hash, _] = SECRETS[0];
    let folder = tempfile::tempdir().expect("a temporary directory");
    let desired = folder.path().join("desired.json");
    for spoilt in [
        text[..in_secret].to_owned(),
        text.replacen(pull, &format!("{pull}\u{1}"), 1),
        spoil(source, json!(pull)),
        spoil(source, json!(format!("data:;base64,{pull}$"))),
        spoil(source, json!(format!("data:,{pull}%zz"))),
        spoil(source, json!(format!("https://user:{pull}@example.net/x"))),
        spoil(source, json!([pull])),
        spoil("/spec/config/storage/files/0/mode", json!(pull)),
        spoil("/spec/config/passwd/users/0/passwordHash", json!([hash])),
    ] {
        fs::write(&desired, &spoilt).expect("a document");
        let outcome = flameholder(["plan".as_ref(), "--desired".as_ref(), desired.as_os_str()]);
        assert_eq!(outcome.code, Some(78), "{spoilt}\n{outcome:?}");
        assert!(leaks(&(outcome.stdout.clone() + &outcome.stderr)).is_empty(), "{outcome:?}");
    }
}
