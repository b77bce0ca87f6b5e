//! Each kind of drift on an applied tree is found and reported as that kind.

use std::fs;

use crate::drift::host::{CONFIG, Host, KEYS, RECORD, UNITS, WANTS, many_sided};

type Damage = fn(&Host);

/// Cause each drift on a tree of its own and panic unless it is the only one that is found, with this kind.
fn assert_found_as(cases: &[(&str, &str, Damage)]) {
    for (path, kind, damage) in cases {
        let host = Host::new();
        damage(&host);
        assert_eq!(host.kinds(), [((*path).to_owned(), (*kind).to_owned())], "{path} {kind}");
    }
}

#[test]
fn drift_of_files_directories_and_links_is_found() {
    assert_found_as(&[
        ("/etc/b", "missing", |host| host.remove("/etc/b")),
        ("/etc/b", "content", |host| host.edit("/etc/b")),
        ("/etc/b", "mode", |host| host.mode("/etc/b", 0o4644)),
        ("/etc/b", "owner", |host| host.give("/etc/b", 7)),
        ("/etc/b", "type", |host| host.link("/etc/b", "a")),
        ("/etc/dir", "missing", |host| host.remove("/etc/dir")),
        ("/etc/dir", "mode", |host| host.mode("/etc/dir", 0o755)),
        ("/etc/dir", "owner", |host| host.give("/etc/dir", 7)),
        ("/etc/dir", "type", |host| host.link("/etc/dir", "empty.d")),
        ("/etc/soft", "missing", |host| host.remove("/etc/soft")),
        ("/etc/soft", "target", |host| host.link("/etc/soft", "b")),
        ("/etc/soft", "owner", |host| host.give("/etc/soft", 7)),
        ("/etc/hard", "missing", |host| host.remove("/etc/hard")),
        ("/etc/hard", "target", |host| {
            host.remove("/etc/hard");
            host.put("/etc/hard", "ours\n");
        }),
        ("/etc/hard", "type", |host| host.link("/etc/hard", "a")),
    ]);
}

#[test]
fn drift_of_units_keys_and_passwords_is_found() {
    assert_found_as(&[
        ("/etc/systemd/system/own.service", "content", |host| host.edit(&format!("{UNITS}/own.service"))),
        ("/etc/systemd/system/own.service.d/10-a.conf", "missing", |host| {
            host.remove(&format!("{UNITS}/own.service.d/10-a.conf"));
        }),
        ("/etc/systemd/system/own.service.d/20-gone.conf", "unexpected", |host| {
            host.put(&format!("{UNITS}/own.service.d/20-gone.conf"), "[Service]\n");
        }),
        ("/etc/systemd/system/own.service.d/20-gone.conf", "unexpected", |host| {
            host.put(&format!("{UNITS}/own.service.d/20-gone.conf"), "");
            host.mode(&format!("{UNITS}/own.service.d/20-gone.conf"), 0o666);
        }),
        (WANTS, "enablement", |host| host.remove(WANTS)),
        ("/etc/systemd/system/multi-user.target.wants/zincati.service", "enablement", |host| {
            let link = format!("{UNITS}/multi-user.target.wants/zincati.service");
            host.tree.link(&link, "/usr/lib/systemd/system/zincati.service");
        }),
        ("/etc/systemd/system/rpcbind.socket", "missing", |host| {
            host.remove(&format!("{UNITS}/rpcbind.socket"));
        }),
        ("/etc/systemd/system/rpcbind.socket", "target", |host| {
            host.link(&format!("{UNITS}/rpcbind.socket"), "/usr/lib/systemd/system/dbus.socket");
        }),
        (KEYS, "content", |host| host.edit(KEYS)),
        ("/var/home/core/.ssh", "mode", |host| host.mode("/var/home/core/.ssh", 0o755)),
        ("/etc/shadow", "password", |host| {
            let shadow = host.text("/etc/shadow").replace("$6$salt$hash", "");
            fs::write(host.at("/etc/shadow"), shadow).unwrap();
        }),
    ]);
}

#[test]
fn empty_file_of_an_empty_drop_in_is_no_drift_and_leaves_with_it() {
    let host = Host::new();
    let path = format!("{UNITS}/own.service.d/20-gone.conf");
    host.put(&path, "");
    assert_eq!(host.found(), []);
    let planned = host.run_with("plan", &many_sided(), &["--exit-code"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let mut without = many_sided();
    without["metadata"]["name"] = "rendered-without".into();
    without["spec"]["config"]["systemd"]["units"][0]["dropins"].as_array_mut().unwrap().truncate(1);
    host.apply(&without);
    assert!(!host.at(&path).exists());
}

#[test]
fn drift_of_the_record_is_found() {
    assert_found_as(&[
        (CONFIG, "mode", |host| host.mode(CONFIG, 0o644)),
        (CONFIG, "owner", |host| host.give(CONFIG, 7)),
        (RECORD, "mode", |host| host.mode(RECORD, 0o666)),
        (RECORD, "owner", |host| host.give(RECORD, 7)),
        (RECORD, "content", |host| {
            let config = host.text(CONFIG).replace("rendered-many", "rendered-others");
            fs::write(host.at(CONFIG), config).unwrap();
        }),
    ]);
}

/// Access control list: owner, a user with all rights, group, mask, others.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 7, 1000), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Capability to bind low ports for every user who runs the file.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn drift_of_extended_attributes_is_found() {
    assert_found_as(&[
        ("/etc/b", "xattrs", |host| host.xattr("/etc/b", "user.note", b"")),
        ("/etc/b", "xattrs", |host| host.xattr("/etc/b", "trusted.note", b"mine")),
        ("/etc/b", "xattrs", |host| host.xattr("/etc/b", "security.capability", &CAPABILITY)),
        ("/etc/b", "xattrs", |host| host.xattr("/etc/b", "system.posix_acl_access", &access_list())),
        ("/etc/dir", "xattrs", |host| host.xattr("/etc/dir", "user.note", b"mine")),
        ("/etc/dir", "xattrs", |host| host.xattr("/etc/dir", "system.posix_acl_default", &access_list())),
        ("/etc/systemd/system/own.service", "xattrs", |host| {
            host.xattr(&format!("{UNITS}/own.service"), "user.note", b"mine");
        }),
        // The list of names is longer than the first buffer for it.
        ("/etc/b", "xattrs", |host| {
            for number in 0..8 {
                host.xattr("/etc/b", &format!("security.ima-{number}-{}", "x".repeat(200)), b"");
            }
            host.xattr("/etc/b", "user.note", b"");
        }),
    ]);
}

#[test]
fn attributes_of_the_system_are_no_drift() {
    let host = Host::new();
    for name in ["security.selinux", "security.ima"] {
        host.xattr("/etc/b", name, b"value");
        host.xattr("/etc/dir", name, b"value");
    }
    host.xattr("/etc/unmanaged.conf", "user.note", b"not managed");
    host.xattr("/etc/deep", "user.note", b"only a parent");
    assert_eq!(host.found(), []);
}

const LABELS: [(&str, &str); 4] = [
    ("/etc/b", "system_u:object_r:etc_t:s0"),
    ("/etc/dir", "system_u:object_r:etc_t:s0"),
    ("/etc/soft", "system_u:object_r:etc_t:s0"),
    ("/etc/shadow", "system_u:object_r:shadow_t:s0"),
];

#[test]
fn drift_of_labels_is_found() {
    for (path, _) in LABELS {
        let host = Host::new();
        host.labelled(&LABELS);
        assert_eq!(host.found(), []);
        host.xattr(path, "security.selinux", b"system_u:object_r:tmp_t:s0\0");
        assert_eq!(host.kinds(), [(path.to_owned(), "label".to_owned())]);
    }
    let host = Host::new();
    host.labelled(&LABELS);
    rustix::fs::removexattr(host.at("/etc/b"), "security.selinux").unwrap();
    assert_eq!(host.kinds(), [("/etc/b".to_owned(), "label".to_owned())], "a missing label");
}

#[test]
fn second_apply_removes_foreign_attributes_of_files() {
    let host = Host::new();
    host.xattr("/etc/b", "user.note", b"mine");
    host.xattr("/etc/a", "security.capability", &CAPABILITY);
    host.apply(&crate::drift::host::many_sided());
    assert!(!host.has_xattr("/etc/b", "user.note") && !host.has_xattr("/etc/a", "security.capability"));
    assert_eq!(host.found(), []);
    assert_eq!(host.inode("/etc/a"), host.inode("/etc/hard"));

    // A directory is not replaced, so its extended attributes stay until they are removed by hand.
    host.xattr("/etc/dir", "user.note", b"mine");
    let before = host.snapshot();
    host.apply(&crate::drift::host::many_sided());
    assert_eq!(testbed::model::snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
    assert_eq!(host.kinds(), [("/etc/dir".to_owned(), "xattrs".to_owned())]);
}

#[test]
fn default_access_list_is_not_inherited() {
    let host = Host::new();
    for directory in ["/etc", "/var", "/etc/systemd/system", "/var/home/core"] {
        host.xattr(directory, "system.posix_acl_default", &access_list());
    }
    let mut config = many_sided();
    config["spec"]["config"]["storage"]["files"] = serde_json::json!([
        testbed::model::document::file("/etc/a", "anew\n"),
        testbed::model::document::file("/etc/made/anew", "anew\n"),
        testbed::model::document::file("/var/made/anew", "anew\n")
    ]);
    host.apply(&config);
    assert_eq!(host.found(), []);
    for path in ["/etc/a", "/etc/made", "/etc/made/anew", "/var/made", "/var/made/anew"] {
        for list in ["system.posix_acl_default", "system.posix_acl_access"] {
            assert!(!host.has_xattr(path, list), "{path} has {list}");
        }
    }
}
