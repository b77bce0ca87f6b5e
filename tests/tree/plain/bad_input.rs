//! Configs with an invalid field: exit code, the path of the field, and an unchanged tree.

use std::fs;

use serde_json::{Value, json};
use testbed::model::applied_tree::outcome_complaints;
use testbed::model::document::{file, machine_config, with_files};
use testbed::model::refused::{MALFORMED, assert_all_refused};
use testbed::model::run::flameholder;

/// Document with a valid file and, after it, one whose `field` (a JSON pointer below the entry) is replaced.
fn spoilt(field: &str, value: Value) -> Vec<u8> {
    let mut entry = file("/etc/x", "x");
    let (parent, key) = field.rsplit_once('/').expect("a pointer");
    entry.pointer_mut(parent).expect("a field")[key] = value;
    bytes(&with_files("rendered-bad", &[file("/etc/good", "good"), entry]))
}

fn with_unit(unit: &Value, files: &[Value]) -> Vec<u8> {
    let ignition =
        json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}, "systemd": {"units": [unit]}});
    bytes(&machine_config("rendered-bad", &ignition))
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

#[test]
fn invalid_files_are_refused() {
    const PATH: &[&str] = &["spec.config.storage.files[1].path"];
    const MODE: &[&str] = &["spec.config.storage.files[1].mode"];
    const CONTENTS: &[&str] = &["spec.config.storage.files[1].contents"];
    let duplicate = with_files("rendered-bad", &[file("/etc/x", "1"), file("/etc/x", "2")]);
    let below = with_files("rendered-bad", &[file("/etc/x", "1"), file("/etc/x/y", "2")]);
    let squeezed = json!({"compression": "gzip", "source": "data:,not%20gzip"});
    assert_all_refused(vec![
        ("a path that leaves the root", spoilt("/path", json!("/etc/../../x")), PATH),
        ("a path with a dot", spoilt("/path", json!("/etc/./x")), PATH),
        ("a relative path", spoilt("/path", json!("etc/x")), PATH),
        ("an empty path", spoilt("/path", json!("")), PATH),
        ("the root", spoilt("/path", json!("/")), PATH),
        ("a path with a zero byte", spoilt("/path", json!("/etc/a\0b")), PATH),
        ("a name beyond 255 bytes", spoilt("/path", json!(format!("/etc/{}", "x".repeat(256)))), PATH),
        ("the force file", spoilt("/path", json!("/run/machine-config-daemon-force")), PATH),
        ("a path twice", bytes(&duplicate), &["/etc/x"]),
        ("a file below a file", bytes(&below), &["/etc/x"]),
        ("set-user-ID", spoilt("/mode", json!(0o4755)), MODE),
        ("sticky", spoilt("/mode", json!(0o1777)), MODE),
        ("a negative mode", spoilt("/mode", json!(-1)), MODE),
        ("a fractional mode", spoilt("/mode", json!(420.5)), MODE),
        ("a mode in quotes", spoilt("/mode", json!("0644")), MODE),
        ("a remote source", spoilt("/contents/source", json!("https://example.net/x")), CONTENTS),
        ("a source that is no URL", spoilt("/contents/source", json!("plain text")), CONTENTS),
        ("a data URL without a comma", spoilt("/contents/source", json!("data:text/plain")), CONTENTS),
        (
            "letters that are not base64",
            spoilt("/contents/source", json!("data:;base64,aGVsbG8$$")),
            CONTENTS,
        ),
        ("base64 that stops early", spoilt("/contents/source", json!("data:;base64,aGVsbG8aa")), CONTENTS),
        ("a percent escape of other letters", spoilt("/contents/source", json!("data:,100%zz")), CONTENTS),
        ("a percent escape that stops early", spoilt("/contents/source", json!("data:,100%2")), CONTENTS),
        ("an unknown compression", spoilt("/contents/compression", json!("xz")), CONTENTS),
        ("gzip that is none", spoilt("/contents", squeezed), CONTENTS),
    ]);
}

#[test]
fn invalid_units_are_refused() {
    let unit = json!({"name": "x.service", "contents": "[Service]\nExecStart=/bin/true\n",
        "dropins": [{"name": "10-x.conf", "contents": "[Unit]\nDescription=x\n"}]});
    let mut suffix = unit.clone();
    suffix["name"] = json!("x.servant");
    let mut away = unit.clone();
    away["name"] = json!("../x.service");
    let mut dropin = unit.clone();
    dropin["dropins"][0]["name"] = json!("10-x.txt");
    let mut dropin_away = unit.clone();
    dropin_away["dropins"][0]["name"] = json!("../../10-x.conf");
    let mut syntax = unit.clone();
    syntax["contents"] = json!("[Service\nExecStart\n");
    let at_unit = file("/etc/systemd/system/x.service", "x");
    let at_dropin = file("/etc/systemd/system/x.service.d/10-x.conf", "x");
    let twice = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": [unit, unit]}});
    assert_all_refused(vec![
        (
            "a file in a unit's place",
            with_unit(&unit, &[at_unit]),
            &["/etc/systemd/system/x.service|files[0]"],
        ),
        ("a file in a drop-in's place", with_unit(&unit, &[at_dropin]), &["x.service.d/10-x.conf|files[0]"]),
        ("an unknown kind of unit", with_unit(&suffix, &[]), &["spec.config.systemd.units[0].name"]),
        ("a unit elsewhere", with_unit(&away, &[]), &["spec.config.systemd.units[0].name"]),
        (
            "a drop-in of another kind",
            with_unit(&dropin, &[]),
            &["spec.config.systemd.units[0].dropins[0].name"],
        ),
        (
            "a drop-in elsewhere",
            with_unit(&dropin_away, &[]),
            &["spec.config.systemd.units[0].dropins[0].name"],
        ),
        ("a unit that does not parse", with_unit(&syntax, &[]), &["spec.config.systemd.units[0].contents"]),
        ("a unit twice", bytes(&machine_config("rendered-bad", &twice)), &["x.service"]),
    ]);
}

#[test]
fn password_hashes_that_would_break_the_shadow_file_are_refused() {
    const HASH: &[&str] = &["spec.config.passwd.users[0].passwordHash"];
    let hash = |hash: &str| {
        let mut config = with_files("rendered-bad", &[]);
        config["spec"]["config"]["passwd"] = json!({"users": [{"name": "core", "passwordHash": hash}]});
        bytes(&config)
    };
    assert_all_refused(vec![
        ("a hash of two lines", hash("$6$a$b\nroot::0:0:::"), HASH),
        ("a hash of two fields", hash("$6$a$b:0:0"), HASH),
    ]);
}

#[test]
fn all_refusals_are_reported_at_once() {
    let mut entries: Vec<Value> =
        ["a", "b", "c", "d"].map(|name| file(&format!("/etc/{name}"), name)).to_vec();
    entries[0]["mode"] = json!(0o2755);
    entries[1]["path"] = json!("relative");
    entries[2]["contents"]["compression"] = json!("zstd");
    entries[3]["mode"] = json!(0o4755);
    assert_all_refused(vec![(
        "four faults",
        bytes(&with_files("rendered-bad", &entries)),
        &[
            "spec.config.storage.files[0].mode",
            "spec.config.storage.files[1].path",
            "spec.config.storage.files[2].contents",
            "spec.config.storage.files[3].mode",
        ],
    )]);
}

#[test]
fn current_config_is_validated_like_the_desired_one() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name).into_os_string();
    fs::write(path("current.json"), "{").expect("a document");
    fs::write(path("desired.json"), bytes(&with_files("rendered-good", &[]))).expect("a document");
    let pair = ["--current".into(), path("current.json"), "--desired".into(), path("desired.json")];
    let outcome = flameholder(["plan".into()].into_iter().chain(pair));
    let complaints = outcome_complaints(&outcome, MALFORMED, &["current.json"]);
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn invalid_command_lines_are_usage_errors() {
    const USAGE: i32 = 64;
    let lines: &[&[&str]] = &[
        &["no-such-command"],
        &["apply"],
        &["plan", "--no-such-option"],
        &["plan", "--desired"],
        &["plan", "--desired", "x.json", "--profile", "neither"],
        &["plan", "--desired", "x.json", "-o", "xml"],
        &["plan", "--desired", "x.json", "--root", "/x", "--sysroot", "/y"],
        &["apply", "--desired", "x.json", "--reboot", "perhaps"],
    ];
    for line in lines {
        let outcome = flameholder(line.iter());
        assert_eq!(outcome.code, Some(USAGE), "{line:?}: {outcome:?}");
        assert!(outcome.stdout.is_empty() && !outcome.stderr.is_empty(), "{line:?}: {outcome:?}");
    }
    for line in ["--help", "--version"] {
        assert_eq!(flameholder([line]).code, Some(0), "{line}");
    }
}
