//! Files that exist before a config lists them, without contents of its own or with `append`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::json;
use testbed::model::document::file;
use testbed::model::run::flameholder;

use crate::plain::hostile::{Host, empty, files};

#[test]
fn file_without_contents_replaces_none_that_has_some() {
    let host = Host::new();
    host.put("/etc/mine", "mine");
    host.assert_obstructed(&files(&[json!({"path": "/etc/mine", "mode": 0o600})]), "/etc/mine");
    assert_eq!(host.text("/etc/mine"), "mine");
    host.applies(&files(&[json!({"path": "/etc/mine", "append": [{"source": "data:,%20more"}]})]));
    assert_eq!(host.text("/etc/mine"), "mine more");
    host.applies(&empty());
    let replacing = json!({"path": "/etc/mine", "overwrite": true});
    for emptied in [file("/etc/mine", ""), replacing] {
        host.applies(&files(&[emptied, json!({"path": "/etc/new"})]));
        assert_eq!((host.text("/etc/mine").as_str(), host.text("/etc/new").as_str()), ("", ""));
        host.applies(&empty());
        assert_eq!(host.text("/etc/mine"), "mine");
    }
}

#[test]
fn file_without_contents_in_a_directory_of_documents_replaces_none_that_has_some() {
    let host = Host::new();
    host.put("/etc/mine", "mine");
    let documents = tempfile::tempdir().unwrap();
    let apply = |more: &str| {
        let document = format!(
            "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/mine\n      mode: 0600\n{more}"
        );
        fs::write(documents.path().join("10-mode.bu"), document).unwrap();
        let (root, desired) = (host.0.root().as_os_str(), documents.path().as_os_str());
        flameholder(["apply".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), desired])
    };
    for more in ["", "    - path: /etc/new\n"] {
        let refused = apply(more);
        assert!(refused.code == Some(1) && refused.stderr.contains("/etc/mine"), "{refused:?}");
        assert_eq!(host.text("/etc/mine"), "mine");
    }
    for (more, text) in [
        ("      append: [{inline: ' more'}]\n", "mine more"),
        ("      overwrite: true\n", ""),
        ("      contents: {inline: own}\n", "own"),
    ] {
        let applied = apply(more);
        assert_eq!((applied.code, host.text("/etc/mine").as_str()), (Some(0), text), "{applied:?}");
    }
}

#[test]
fn append_alone_leaves_mode_and_owner_of_the_file() {
    let host = Host::new();
    let attributes = |path: &str| {
        let found = host.0.at(path).symlink_metadata().unwrap();
        (found.mode() & 0o7777, found.uid(), found.gid())
    };
    let line = json!([{"source": "data:,two%0A"}]);
    host.0.file("/etc/chrony.keys", 0o640, (0, 994), b"one\n");
    let alone = json!({"path": "/etc/chrony.keys", "append": line});
    for (entry, expected) in [
        (alone.clone(), (0o640, 0, 994)),
        (json!({"path": "/etc/chrony.keys", "append": line, "mode": 0o600}), (0o600, 0, 994)),
        (
            json!({"path": "/etc/chrony.keys", "append": line, "user": {"id": 7}, "group": {"name": ""}}),
            (0o640, 7, 994),
        ),
        (json!({"path": "/etc/chrony.keys", "append": line, "group": {"id": 0}}), (0o640, 0, 0)),
        (alone, (0o640, 0, 994)),
    ] {
        host.applies(&files(&[entry.clone(), json!({"path": "/etc/new", "append": line})]));
        assert_eq!(
            (host.text("/etc/chrony.keys").as_str(), attributes("/etc/chrony.keys")),
            ("one\ntwo\n", expected)
        );
        assert_eq!((host.text("/etc/new").as_str(), attributes("/etc/new")), ("two\n", (0o644, 0, 0)));
        assert_eq!(host.verify(), Some(0), "{entry}");
    }
    host.applies(&empty());
    assert_eq!(
        (host.text("/etc/chrony.keys").as_str(), attributes("/etc/chrony.keys")),
        ("one\n", (0o640, 0, 994))
    );
}

#[test]
fn append_to_contents_that_are_given_as_none_extends_no_file() {
    let host = Host::new();
    host.put("/etc/mine", "mine\n");
    let entry = json!({"path": "/etc/mine", "contents": {"source": "data:,"}, "append": [{"source": "data:,own%0A"}]});
    host.applies(&files(&[entry]));
    assert_eq!(host.text("/etc/mine"), "own\n");
}
