//! Files and names that were planted on the host before an apply: an obstruction is named and kept whole, and
//! no name or content makes a command panic or write control characters to the terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testbed::model::document::file;
use testbed::model::run::{Outcome, flameholder, launch};
use testbed::model::snapshot;

use crate::plain::hostile::{Host, UNITS, empty, files, ignition, keys, units};

/// Run `verb` on the host's tree.
fn run(host: &Host, verb: &str, more: &[&str]) -> Outcome {
    let line = [verb.as_ref(), "--root".as_ref(), host.0.root().as_os_str()];
    flameholder(line.into_iter().chain(more.iter().map(AsRef::as_ref)))
}

/// Run `verb` on the host's tree with this config.
fn run_with(host: &Host, verb: &str, config: &Value, more: &[&str]) -> Outcome {
    let desired = host.written(config);
    let desired = ["--desired", desired.to_str().unwrap()];
    run(host, verb, &[&desired, more].concat())
}

/// Paths and nodes, without the product's own records.
fn nodes(host: &Host) -> Vec<String> {
    let seen = snapshot::take(host.0.root());
    let own = |path: &str| path.starts_with("var/lib/flameholder") || path.ends_with(".flameholder.d");
    let foreign = seen.iter().filter(|(path, _)| !own(path));
    foreign.map(|(path, (node, _))| format!("{path}: {node:?}")).collect()
}

/// Panics unless the config fails to apply with exit code 1 and `named` in the error, and the tree is
/// unchanged.
fn assert_stopped_by(host: &Host, config: &Value, profile: &str, named: &str) {
    let before = nodes(host);
    let outcome = run_with(host, "apply", config, &["--profile", profile]);
    assert_eq!(outcome.code, Some(1), "{named}: {outcome:?}");
    assert!(outcome.stderr.contains(named), "the error does not name {named}: {}", outcome.stderr);
    assert_eq!(nodes(host), before, "{named}");
}

#[test]
fn obstructing_directory_is_named_and_kept() {
    let service = "[Service]\nExecStart=/bin/true\n[Install]\nAlias=bar.service\n";
    let unit = |unit: Value| units(&json!([unit]));
    let cases = [
        (
            "native",
            format!("{UNITS}/foo.service.d/10-a.conf"),
            unit(json!({"name": "foo.service", "dropins": [{"name": "10-a.conf", "contents": ""}]})),
        ),
        ("mcd", format!("{UNITS}/foo.service"), unit(json!({"name": "foo.service", "mask": false}))),
        (
            "native",
            format!("{UNITS}/bar.service"),
            unit(json!({"name": "foo.service", "enabled": true, "contents": service})),
        ),
        (
            "native",
            "/etc/machine-config-daemon/currentconfig".to_owned(),
            files(&[file("/etc/before", "x"), file("/etc/zz", "x")]),
        ),
    ];
    for (profile, path, config) in cases {
        let host = Host::new();
        host.put(&format!("{path}/precious"), "data");
        assert_stopped_by(&host, &config, profile, &path);
    }
}

#[test]
fn directory_in_place_of_a_removed_file_is_kept() {
    for shipped in [false, true] {
        let host = Host::new();
        host.put("/etc/foo", "admin");
        if shipped {
            host.put("/usr/etc/foo", "vendor");
        }
        host.applies(&files(&[file("/etc/foo", "ours")]));
        fs::remove_file(host.0.at("/etc/foo")).unwrap();
        host.put("/etc/foo/precious", "data");
        assert_stopped_by(&host, &empty(), "native", "/etc/foo");
    }
}

#[test]
fn link_in_place_of_the_key_directory_is_replaced() {
    for (target, outside) in [(".ssh2", "/var/home/core/.ssh2"), ("/etc", "/etc"), ("../../../etc", "/etc")] {
        let host = Host::new();
        host.applies(&keys());
        let ssh = host.0.at("/var/home/core/.ssh");
        fs::remove_dir_all(&ssh).unwrap();
        host.put("/var/home/core/.ssh2/notes", "core's own");
        std::os::unix::fs::symlink(target, &ssh).unwrap();
        host.applies(&keys());
        assert!(ssh.symlink_metadata().unwrap().is_dir(), "{target}");
        assert!(!host.0.at(outside).join("authorized_keys.d").exists(), "{target} was followed");
        assert_eq!(host.text("/var/home/core/.ssh2/notes"), "core's own", "{target}");
    }
}

#[test]
fn empty_current_config_is_named_by_every_command() {
    let host = Host::new();
    host.applies(&files(&[file("/etc/a", "1")]));
    fs::write(host.0.at("/etc/machine-config-daemon/currentconfig"), "").unwrap();
    let next = files(&[file("/etc/a", "2")]);
    let outcomes = [
        ("plan", run_with(&host, "plan", &next, &[])),
        ("apply", run_with(&host, "apply", &next, &[])),
        ("verify", run(&host, "verify", &[])),
    ];
    for (verb, outcome) in outcomes {
        assert_eq!(outcome.code, Some(1), "{verb}: {outcome:?}");
        assert!(outcome.stderr.contains("currentconfig"), "{verb}: {}", outcome.stderr);
    }
}

#[test]
fn private_directories_are_kept_after_their_config() {
    let host = Host::new();
    let private = ["/etc/adm-empty", "/etc/adm-full"];
    host.put("/etc/adm-full/notes", "admin");
    for path in private {
        host.0.directory(path);
        fs::set_permissions(host.0.at(path), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let listed = private.map(|path| json!({"path": path}));
    host.applies(&ignition("storage", &json!({"directories": listed})));
    host.applies(&empty());
    assert!(private.iter().all(|path| host.0.at(path).is_dir()));
    assert_eq!(host.text("/etc/adm-full/notes"), "admin");
}

#[test]
fn enabled_unit_of_the_image_has_its_link() {
    let host = Host::new();
    host.applies(&units(&json!([{"name": "ipsec.service", "enabled": true}])));
    let link = host.0.at(UNITS).join("multi-user.target.wants/ipsec.service");
    assert!(link.symlink_metadata().is_ok_and(|link| link.is_symlink()));
    assert_eq!(host.verify(), Some(0));
}

#[test]
fn full_standard_error_does_not_change_the_exit_code() {
    let host = Host::new();
    let script = r#""$0" apply --root "$1" --desired "$2" 2>/dev/full"#;
    let muted = |config: &Value| {
        let (root, desired) = (host.0.root().to_str().unwrap(), host.written(config));
        launch("sh", ["-c", script, env!("CARGO_BIN_EXE_flameholder"), root, desired.to_str().unwrap()]).code
    };
    host.put("/etc/taken/precious", "data");
    assert_eq!(muted(&files(&[file("relative", "x")])), Some(78));
    assert_eq!(muted(&files(&[file("/etc/taken", "x")])), Some(1));
    assert_eq!(muted(&files(&[file("/etc/free", "x")])), Some(0));
}

#[test]
fn account_files_keep_lines_that_are_not_utf8() {
    let host = Host::new();
    let odd =
        [("/etc/passwd", &b"odd:x:1234:1234:\xf6:/:/bin/sh\n"[..]), ("/etc/shadow", b"odd:\xf6:1::::::\n")];
    for (path, line) in odd {
        let mut bytes = fs::read(host.0.at(path)).unwrap();
        bytes.extend_from_slice(line);
        fs::write(host.0.at(path), bytes).unwrap();
    }
    host.applies(&ignition("passwd", &json!({"users": [{"name": "core", "passwordHash": "$6$salt$hash"}]})));
    for (path, line) in odd {
        let bytes = fs::read(host.0.at(path)).unwrap();
        assert!(bytes.split_inclusive(|byte| *byte == b'\n').any(|is| is == line), "{path} lost a line");
    }
    assert!(fs::read(host.0.at("/etc/shadow")).unwrap().windows(12).any(|is| is == b"$6$salt$hash"));
}

#[test]
fn verify_finds_removed_account_and_pre_images() {
    let host = Host::new();
    host.put("/etc/kept", "admin");
    host.put("/var/kept", "admin");
    let mut config = files(&[file("/etc/kept", "1"), file("/var/kept", "1")]);
    config["spec"]["config"]["passwd"] = json!({"users": [{"name": "core", "passwordHash": "$6$salt$hash"}]});
    host.applies(&config);
    assert_eq!(host.verify(), Some(0));

    let shadow = host.text("/etc/shadow");
    let others = shadow.lines().filter(|line| !line.starts_with("core:"));
    fs::write(host.0.at("/etc/shadow"), others.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    assert_eq!(host.verify(), Some(2), "no account has the configured password");
    fs::write(host.0.at("/etc/shadow"), shadow).unwrap();
    assert_eq!(host.verify(), Some(0));

    for originals in ["/etc/flameholder/originals", "/var/lib/flameholder/originals"] {
        let (kept, away) = (host.0.at(originals), host.0.at("/run/originals"));
        fs::rename(&kept, &away).unwrap();
        assert_eq!(host.verify(), Some(2), "the pre-image in {originals} cannot be restored");
        fs::rename(&away, &kept).unwrap();
        assert_eq!(host.verify(), Some(0), "{originals}");
    }

    let config = host.0.at("/etc/machine-config-daemon/currentconfig");
    fs::set_permissions(config, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(host.verify(), Some(2), "every user may change the config");
}

#[test]
fn overwrite_false_leaves_the_tree_unchanged() {
    let host = Host::new();
    host.put("/etc/mine", "mine");
    let mut wish = file("/etc/mine", "yours");
    wish["overwrite"] = json!(false);
    assert_stopped_by(&host, &files(&[file("/etc/before", "x"), wish]), "native", "/etc/mine");
}

/// Control characters that move the cursor, ring, forge a line, and turn the reading direction.
const STEERING: &str = "x\u{1b}[2J\u{7}\nforged\u{202e}";

fn steers(text: &str) -> bool {
    text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}')
}

#[test]
fn control_characters_in_config_fields_are_not_printed() {
    let mut image = empty();
    image["spec"]["osImageURL"] = json!(STEERING);
    let mut packed = file("/etc/x", "x");
    packed["contents"]["compression"] = json!(STEERING);
    let mut unknown = empty();
    unknown["spec"]["config"][STEERING] = json!(1);
    let mut called = empty();
    called["metadata"]["name"] = json!(STEERING);
    let user = ignition("passwd", &json!({"users": [{"name": STEERING}]}));
    let key = json!(STEERING).to_string();
    let twice = unknown.to_string().replacen(&format!("{key}:1"), &format!("{key}:1,{key}:2"), 1);
    assert_ne!(twice, unknown.to_string(), "the document has a duplicate key");
    let mut documents: Vec<String> =
        [image, files(&[packed]), unknown, called, user, files(&[file(&format!("/etc/{STEERING}"), "x")])]
            .iter()
            .map(Value::to_string)
            .collect();
    documents.push(twice);
    let host = Host::new();
    let desired = host.written(&empty());
    for document in documents {
        fs::write(&desired, &document).unwrap();
        for verb in ["plan", "apply"] {
            let outcome = run(&host, verb, &["--desired", desired.to_str().unwrap()]);
            assert!([Some(0), Some(1), Some(78)].contains(&outcome.code), "{verb}: {document}: {outcome:?}");
            assert!(!steers(&outcome.stdout) && !steers(&outcome.stderr), "{verb}: {document}: {outcome:?}");
        }
    }
}

#[test]
fn control_characters_in_file_names_are_not_printed() {
    let host = Host::new();
    host.put(&format!("{UNITS}/{STEERING}.service"), "[Service]\n");
    host.put("/etc/foo/turned\u{202e}", "data");
    let desired = host.written(&files(&[file("/etc/foo", "x")]));
    let odd = desired.with_file_name(STEERING);
    fs::copy(&desired, &odd).unwrap();
    let missing = odd.with_extension("missing");
    for (verb, document) in [("plan", &odd), ("apply", &odd), ("plan", &missing), ("apply", &missing)] {
        let outcome = run(&host, verb, &["--desired", document.to_str().unwrap()]);
        assert_eq!(outcome.code, Some(1), "{verb} {document:?}: {outcome:?}");
        assert!(!steers(&outcome.stdout) && !steers(&outcome.stderr), "{verb} {document:?}: {outcome:?}");
        let named = if *document == missing { "forged" } else { "/etc/foo" };
        assert!((outcome.stdout + &outcome.stderr).contains(named), "{verb} {document:?} names nothing");
    }
}

#[test]
fn names_beyond_the_limits_are_refused_with_their_field() {
    let called = |name: &str| {
        let mut config = empty();
        config["metadata"]["name"] = json!(name);
        config
    };
    let long = format!("{}.service", "n".repeat(247));
    let cases = [
        (called("x\u{1b}[2J"), "metadata.name"),
        (called("Rendered-X"), "metadata.name"),
        (files(&[file(&"/a".repeat(65), "x")]), "spec.config.storage.files[0].path"),
        (units(&json!([{"name": long, "enabled": true}])), "spec.config.systemd.units[0].name"),
    ];
    let host = Host::new();
    for (config, field) in cases {
        let outcome = host.apply(&config);
        assert_eq!(outcome.code, Some(78), "{field}: {outcome:?}");
        assert!(outcome.stderr.contains(field), "{field}: {}", outcome.stderr);
    }
    host.applies(&files(&[file(&format!("/etc{}", "/a".repeat(63)), "x")]));
}

#[test]
fn spec_that_says_nothing_removes_nothing() {
    let host = Host::new();
    host.applies(&files(&[file("/etc/a", "1")]));
    let blank = [
        json!([]),
        json!([null]),
        json!({}),
        json!({"config": null}),
        json!({"config": {}}),
        json!({"osImageURL": "", "kernelArguments": [], "fips": false}),
    ];
    for spec in blank {
        let mut config = empty();
        config["spec"] = spec.clone();
        let outcome = host.apply(&config);
        assert_eq!(outcome.code, Some(78), "{spec}: {outcome:?}");
        assert!(outcome.stderr.contains("spec"), "{spec}: {outcome:?}");
        assert_eq!(host.text("/etc/a"), "1", "{spec}");
    }
    host.applies(&empty());
    assert!(!host.0.at("/etc/a").exists());
}

#[test]
fn files_outside_etc_are_removed_without_the_document_that_names_them() {
    let active = "/var/lib/flameholder/active";
    for damage in ["absent", "cut off"] {
        let host = Host::new();
        host.applies(&files(&[file("/etc/a", "1"), file("/usr/local/bin/tool", "1")]));
        if damage == "absent" {
            fs::remove_file(host.0.at(active)).unwrap();
        } else {
            fs::write(host.0.at(active), "{\"schema\":1,").unwrap();
        }
        host.applies(&files(&[file("/etc/a", "2")]));
        assert!(!host.0.at("/usr/local/bin/tool").exists(), "{damage}");
        assert_eq!(host.verify(), Some(0), "{damage}");
        assert_eq!(host.0.at(&format!("{active}.unreadable")).exists(), damage == "cut off");
    }
}

#[test]
fn place_of_settings_that_is_no_directory_is_named_by_every_command() {
    let host = Host::new();
    host.applies(&files(&[file("/etc/a", "1")]));
    host.put("/etc/flameholder/config.d", "[drift]\ndefault = \"repair\"\n");
    let next = files(&[file("/etc/a", "2")]);
    for (verb, outcome) in [
        ("plan", run_with(&host, "plan", &next, &[])),
        ("apply", run_with(&host, "apply", &next, &[])),
        ("verify", run(&host, "verify", &[])),
    ] {
        assert_eq!(outcome.code, Some(1), "{verb}: {outcome:?}");
        assert!(outcome.stderr.contains("/etc/flameholder/config.d"), "{verb}: {outcome:?}");
    }
}

#[test]
fn named_pipe_in_a_directory_of_configs_is_named() {
    let host = Host::new();
    let configs = tempfile::tempdir().unwrap();
    fs::copy(host.written(&files(&[file("/etc/a", "1")])), configs.path().join("a.json")).unwrap();
    assert_eq!(launch("mkfifo", [configs.path().join("b.json")]).code, Some(0));
    let outcome = run(&host, "plan", &["--desired", configs.path().to_str().unwrap()]);
    assert!(outcome.code != Some(0) && outcome.stderr.contains("b.json"), "{outcome:?}");
}
