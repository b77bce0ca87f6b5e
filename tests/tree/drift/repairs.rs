//! `verify --repair`: drift with the policy `repair` is repaired, and nothing else is changed.

use std::fs;

use serde_json::{Value, json};
use testbed::model::snapshot;

use crate::drift::host::{CONFIG, Host, KEYS, RECORD, UNITS, many_sided, triples};

const EVERYTHING: &str = "[drift]\ndefault = \"repair\"\n";

fn listed(path: &str, policy: &str) -> String {
    format!("[[drift.path]]\npath = \"{path}\"\npolicy = \"{policy}\"\n")
}

fn paths(items: &Value) -> Vec<String> {
    triples(items).into_iter().map(|(path, ..)| path).collect()
}

#[test]
fn drift_of_all_kinds_is_repaired_at_once() {
    let host = Host::new();
    let before = host.snapshot();
    host.damage();
    host.settings("10.toml", EVERYTHING);
    let damaged = host.kinds();
    for kind in [
        "content",
        "mode",
        "owner",
        "missing",
        "type",
        "unexpected",
        "xattrs",
        "target",
        "enablement",
        "password",
    ] {
        assert!(damaged.iter().any(|(_, found)| found == kind), "{kind}: {damaged:?}");
    }
    let document = host.document(&["--repair"]);
    assert_eq!(document["drift"], json!([]));
    let repaired: Vec<_> =
        triples(&document["repaired"]).into_iter().map(|(path, kind, _)| (path, kind)).collect();
    assert_eq!(repaired, damaged);
    assert_eq!(host.found(), []);

    let after = host.snapshot();
    let body = |seen: &snapshot::Snapshot, path: &str| seen.get(path).map(|(node, _)| format!("{node:?}"));
    // The settings are new, the shadow file has the date of its change, the lock names its last holder, and the local
    // versions are kept.
    let may_differ = |path: &str| {
        path.starts_with("etc/flameholder/config.d")
            || path.starts_with("var/lib/flameholder/undone")
            || [snapshot::LOCK, "etc/shadow"].contains(&path)
    };
    for path in before.keys().chain(after.keys()).filter(|path| !may_differ(path)) {
        assert_eq!(body(&after, path), body(&before, path), "{path}");
    }
    assert!(host.text("/etc/shadow").contains("core:$6$salt$hash:"));
    assert_eq!(host.inode("/etc/a"), host.inode("/etc/hard"));
}

#[test]
fn paths_without_drift_are_unchanged_by_a_repair() {
    let host = Host::new();
    host.damage();
    let repaired = ["/etc/b", "/etc/deep/er/c", "/etc/admin.conf", KEYS];
    let fragment: String = repaired.iter().map(|path| listed(path, "repair")).collect();
    host.settings("10.toml", &(fragment + &listed("/etc/soft", "ignore")));
    // The next apply rewrites these files of the product.
    host.mode(CONFIG, 0o640);
    host.edit("/etc/machine-config-daemon/currentimage");
    let before = host.snapshot();
    let document = host.document(&["--repair"]);
    // The keys are below a link with the policy `report`.
    assert_eq!(paths(&document["repaired"]), ["/etc/admin.conf", "/etc/b", "/etc/deep/er/c"]);
    let stuck = document["drift"].as_array().unwrap().iter().find(|item| item["path"] == KEYS).unwrap();
    assert!(stuck["obstacle"].as_str().unwrap().contains("/var/home/core/.ssh"), "{stuck}");

    let touched = snapshot::changes(&before, &host.snapshot());
    // Directories whose entries changed, and directories with staged content.
    let expected = [
        "etc was",
        "etc/admin.conf ",
        "etc/b ",
        "etc/deep ",
        "etc/deep/er ",
        "etc/deep/er/c ",
        "var was",
        "var/home",
        // The journal was created and removed here.
        "var/lib/flameholder was",
        "var/lib/flameholder/undone",
    ];
    let others: Vec<_> =
        touched.iter().filter(|line| !expected.iter().any(|known| line.starts_with(known))).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert_eq!(host.text("/etc/b"), "ours\n");
    assert_eq!(host.kept_versions(), ["foreign\n"]);
}

#[test]
fn repair_without_repairable_drift_changes_nothing() {
    for fragment in ["", "[drift]\ndefault = \"ignore\"\n", "[drift]\ndefault = \"report\"\n"] {
        let host = Host::new();
        host.damage();
        host.settings("10.toml", fragment);
        let before = host.snapshot();
        assert_eq!(host.document(&["--repair"])["repaired"], json!([]));
        assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
    }
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    let before = host.snapshot();
    let outcome = host.verify(&["--repair"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
}

#[test]
fn obstacles_are_reported_and_other_drift_is_repaired() {
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    host.remove("/etc/b");
    host.put("/etc/b/precious", "data");
    host.remove("/etc/deep/er");
    host.put("/etc/deep/er", "a file where a directory was\n");
    host.remove("/etc/soft");
    let outcome = host.verify(&["--repair"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    for expected in [
        "repaired: 1 drifted path\n  PATH       DIFFERS  WAS  IS\n  /etc/soft  missing  -    -\n",
        "  /etc/b          type     a file  a directory  repair\n",
        "  not repaired: /etc/b is a directory",
        "/etc/deep/er is a file, but /etc/deep/er/c needs a directory there",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {outcome:?}");
    }
    assert_eq!(host.text("/etc/b/precious"), "data");
    assert_eq!(host.text("/etc/deep/er"), "a file where a directory was\n");
}

#[test]
fn empty_directory_in_place_of_a_file_is_replaced() {
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    host.remove("/etc/b");
    host.tree.directory("/etc/b/empty");
    assert_eq!(host.document(&["--repair"])["drift"], json!([]));
    assert_eq!(host.text("/etc/b"), "ours\n");

    host.remove("/etc/b");
    host.tree.directory("/etc/b");
    host.edit("/etc/a");
    let outcome = host.run_with("apply", &many_sided(), &[]);
    let kept: Vec<_> = outcome.stdout.lines().filter(|line| line.contains("is kept as")).collect();
    assert!(kept.len() == 1 && kept[0].contains("/etc/a "), "{outcome:?}");
    assert!(
        outcome.stdout.contains("  /etc/b  is of another type (expected a file, found a directory)\n"),
        "{outcome:?}"
    );
}

#[test]
fn hard_link_is_repaired_with_its_file() {
    let host = Host::new();
    host.settings("10.toml", &listed("/etc/a", "repair"));
    host.edit("/etc/a");
    assert_eq!(host.document(&["--repair"])["drift"], json!([]));
    assert_eq!((host.text("/etc/hard").as_str(), host.inode("/etc/hard")), ("ours\n", host.inode("/etc/a")));

    let host = Host::new();
    host.settings("10.toml", &listed("/etc/hard", "repair"));
    host.remove("/etc/a");
    host.remove("/etc/hard");
    let document = host.document(&["--repair"]);
    assert_eq!(document["repaired"], json!([]));
    let obstacle = &document["drift"][1]["obstacle"];
    assert_eq!(obstacle, "it is a hard link to /etc/a, which is not repaired");
}

#[test]
fn restored_directories_are_recorded_as_created() {
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    // The directory has links of the config and of the image, and existed before the config.
    host.remove(&format!("{UNITS}/multi-user.target.wants"));
    assert_eq!(host.document(&["--repair"])["drift"], json!([]));
    let record: Value = serde_json::from_str(&host.text(RECORD)).unwrap();
    let created = record["createdDirectories"].as_array().unwrap();
    assert!(created.contains(&json!(format!("{UNITS}/multi-user.target.wants"))), "{created:?}");
    let before = host.snapshot();
    host.apply(&many_sided());
    assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
}

#[test]
fn attributes_of_the_record_are_repaired_but_not_its_content() {
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    host.mode(CONFIG, 0o644);
    host.give(RECORD, 7);
    host.remove("/etc/flameholder/originals");
    let document = host.document(&["--repair"]);
    assert_eq!(paths(&document["repaired"]), [RECORD, CONFIG]);
    let [lost] = document["drift"].as_array().unwrap().as_slice() else { panic!("{document}") };
    assert!(lost["obstacle"].as_str().unwrap().contains("/etc/admin.conf"), "{lost}");

    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    host.edit("/etc/b");
    let config = host.text(CONFIG).replace("rendered-many", "rendered-others");
    fs::write(host.at(CONFIG), config).unwrap();
    let before = host.snapshot();
    let document = host.document(&["--repair"]);
    assert_eq!(document["repaired"], json!([]));
    for item in document["drift"].as_array().unwrap() {
        assert!(item["obstacle"].as_str().unwrap().contains("belong to different changes"), "{item}");
    }
    assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
}

#[test]
fn labels_and_attributes_are_repaired_on_files_and_reported_on_directories() {
    let label = "system_u:object_r:etc_t:s0";
    let labels = ["/etc/a", "/etc/b", "/etc/soft", "/etc/dir"].map(|path| (path, label));
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    host.labelled(&labels);
    for (path, _) in labels {
        host.xattr(path, "security.selinux", b"system_u:object_r:tmp_t:s0\0");
    }
    host.xattr("/etc/admin.conf", "user.note", b"mine");
    let document = host.document(&["--repair"]);
    assert_eq!(paths(&document["repaired"]), ["/etc/a", "/etc/admin.conf", "/etc/b", "/etc/soft"]);
    assert_eq!(paths(&document["drift"]), ["/etc/dir"]);
    for path in ["/etc/a", "/etc/hard", "/etc/b", "/etc/soft"] {
        assert_eq!(host.label(path), label, "{path}");
    }
}

#[test]
fn labels_outside_etc_are_repaired_on_files_where_the_file_system_has_labels() {
    let (directory, label) = ("/var/home/core/.ssh/authorized_keys.d", "system_u:object_r:ssh_home_t:s0");
    let host = Host::new();
    host.settings("10.toml", EVERYTHING);
    host.labelled_outside(&[(directory, label), (KEYS, label)]);
    assert_eq!(host.found(), []);
    for path in [directory, KEYS] {
        host.xattr(path, "security.selinux", b"system_u:object_r:user_home_t:s0\0");
    }
    assert_eq!(host.kinds(), [(KEYS.to_owned(), "label".to_owned())], "a directory keeps its label");
    assert_eq!(paths(&host.document(&["--repair"])["repaired"]), [KEYS]);
    assert_eq!(host.label(KEYS), label);
    for path in [directory, KEYS] {
        rustix::fs::removexattr(host.at(path), "security.selinux").unwrap();
    }
    assert_eq!(host.found(), [], "a file system without labels");
}

#[test]
fn repair_of_a_sysroot_is_refused() {
    for arguments in
        [&["--repair"][..], &["--repair", "--sysroot", "x"], &["--repair", "--root", "a", "--sysroot", "b"]]
    {
        let outcome = testbed::model::run::flameholder(["verify"].iter().chain(arguments));
        assert_eq!(outcome.code, Some(64), "{arguments:?}: {outcome:?}");
    }
}
