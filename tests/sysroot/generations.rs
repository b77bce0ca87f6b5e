//! Rollback between generations, drift of a generation, and deployments made by other programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use osimage::Os;
use serde_json::json;
use testbed::boot::Entry;
use testbed::model::snapshot;
use testbed::offline::{Host, record, run, small_config};

const MANAGED: &str = "etc/managed.conf";

/// A host with two generations, which differ in image, file, link and kernel argument. The newer one is the default
/// boot entry.
fn two_generations() -> (Host, Entry, Entry) {
    let host = Host::new();
    let mut configs = [
        small_config("first", &[("/etc/managed.conf", "1\n")], &["one"]),
        small_config("second", &[("/etc/managed.conf", "2\n")], &["two"]),
    ];
    for config in &mut configs {
        config["spec"]["config"]["systemd"] = json!({"units": [{"name": "own.service", "enabled": true,
            "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}]});
    }
    let [first, second] = configs.map(|config| host.config(&config));
    let first = host.update(&first, None);
    let second = host.update(&second, Some(&host.image(&Os::new(2))));
    (host, first, second)
}

fn roots(entries: &[Entry]) -> Vec<(&Path, &[String])> {
    entries.iter().map(|entry| (entry.root.as_path(), entry.arguments.as_slice())).collect()
}

#[test]
fn rollback_changes_the_default_entry_only_and_a_second_one_reverts() {
    let (host, first, second) = two_generations();
    let sights = [&first, &second].map(|entry| snapshot::take(&entry.root));
    for order in [[&first, &second], [&second, &first], [&first, &second]] {
        let outcome = host.rollback();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let order = order.map(Entry::clone);
        assert_eq!(roots(&host.entries()), roots(&order));
        let now = [&first, &second].map(|entry| snapshot::take(&entry.root));
        for (was, is) in sights.iter().zip(&now) {
            assert_eq!(snapshot::changes(was, is), [""; 0]);
        }
        let verified = host.verify();
        assert_eq!(verified.code, Some(0), "{verified:?}");
        let status = host.status();
        for (found, entry) in status["deployments"].as_array().unwrap().iter().zip(&order) {
            assert_eq!(found["generation"]["generation"], record(entry)["generation"]);
            assert_eq!(found["generation"]["recordMatches"], true);
            assert_eq!(found["next"], entry.root == order[0].root);
            assert_eq!(found["kernelArguments"], json!(entry.arguments));
        }
    }
}

#[test]
fn rollback_with_one_deployment_is_refused() {
    let host = Host::new();
    let before = host.snapshot();
    let outcome = host.rollback();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("only one deployment"), "{outcome:?}");
    assert_eq!(snapshot::changes(&before, &host.snapshot()), [""; 0]);
}

#[test]
fn every_deviation_is_found() {
    let (host, _, entry) = two_generations();
    let link = entry.at("etc/systemd/system/multi-user.target.wants/own.service");
    let managed = entry.at(MANAGED);
    let target = fs::read_link(&link).unwrap();
    let menu = menu_file(&host, " two ");
    let text = fs::read_to_string(&menu).unwrap();
    let mode = |mode| fs::set_permissions(&managed, Permissions::from_mode(mode)).unwrap();
    let repair = || {
        fs::write(&managed, "2\n").unwrap();
        mode(0o644);
        chown(&managed, Some(0), None).unwrap();
        if link.symlink_metadata().is_err() {
            symlink(&target, &link).unwrap();
        }
        fs::write(&menu, &text).unwrap();
    };
    let tampering: [(&str, &dyn Fn()); 7] = [
        (MANAGED, &|| fs::write(&managed, "3\n").unwrap()),
        (MANAGED, &|| mode(0o600)),
        (MANAGED, &|| chown(&managed, Some(1000), None).unwrap()),
        (MANAGED, &|| fs::remove_file(&managed).unwrap()),
        ("own.service", &|| fs::remove_file(&link).unwrap()),
        ("kernel arguments", &|| fs::write(&menu, text.replace(" two ", " ")).unwrap()),
        ("kernel arguments", &|| fs::write(&menu, text.replace(" two ", " Two ")).unwrap()),
    ];
    for (named, tamper) in tampering {
        assert_eq!(host.verify().code, Some(0));
        tamper();
        let outcome = host.verify();
        assert_eq!(outcome.code, Some(2), "{named}: {outcome:?}");
        assert!(outcome.stdout.contains(named), "{named}: {outcome:?}");
        repair();
    }
}

#[test]
fn boot_entry_of_another_generation_is_a_deviation() {
    let (host, first, second) = two_generations();
    let menu = menu_file(&host, &second.generation());
    let text = fs::read_to_string(&menu).unwrap();
    fs::write(&menu, text.replace(&second.generation(), &first.generation())).unwrap();
    let outcome = host.verify();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}

/// The file of the boot entry that contains `text`.
fn menu_file(host: &Host, text: &str) -> PathBuf {
    let files = fs::read_dir(host.sysroot().join("boot/loader/entries")).unwrap();
    let mut paths = files.map(|file| file.unwrap().path());
    paths.find(|path| fs::read_to_string(path).unwrap().contains(text)).expect("an entry")
}

/// Deploys another commit as an administrator does, with the real `ostree`.
fn deploy_foreign(host: &Host) -> Entry {
    let (commit, _) = host.default().id();
    let extra = host.path("extra");
    fs::create_dir_all(extra.join("usr/etc")).unwrap();
    fs::write(extra.join("usr/etc/foreign.conf"), "foreign\n").unwrap();
    let (base, extra) = (format!("--tree=ref={commit}"), format!("--tree=dir={}", extra.display()));
    host.ostree(["commit", "--branch=foreign", "--owner-uid=0", "--owner-gid=0", &base, &extra]);
    host.ostree(["admin", "deploy", "--os=fedora-coreos", "foreign"]);
    host.default()
}

#[test]
fn foreign_deployment_is_no_generation_until_a_config_is_applied() {
    let (host, _, ours) = two_generations();
    let foreign = deploy_foreign(&host);
    assert_ne!(foreign.root, ours.root);
    assert_eq!(record(&foreign), record(&ours), "libostree's merge carries the record over");

    let found = &host.status()["deployments"][0]["generation"];
    assert_eq!(found["recordMatches"], false, "{found}");
    let verified = host.verify();
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(
        verified.stderr.contains("is not a generation: its generation record names another deployment"),
        "{verified:?}"
    );

    let third = host.config(&small_config(
        "third",
        &[("/etc/managed.conf", "3\n"), ("/etc/hosts", "managed\n")],
        &["three"],
    ));
    let new = host.update(&third, None);
    assert_eq!(new.id().0, foreign.id().0, "the foreign commit stays");
    assert_eq!(record(&new)["generation"], new.generation().as_str());
    assert_eq!(fs::read_to_string(new.at(MANAGED)).unwrap(), "3\n");
    assert_eq!(fs::read_to_string(new.at("etc/foreign.conf")).unwrap(), "foreign\n");
    assert!(!new.at("etc/systemd/system/own.service").exists());
    assert!(new.at("etc/systemd/system/multi-user.target.wants/own.service").symlink_metadata().is_err());
    let plain = new.plain_arguments();
    assert!(plain.contains(&"three".to_owned()) && !plain.contains(&"two".to_owned()), "{plain:?}");
    let verified = host.verify();
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn same_config_on_foreign_deployment_makes_a_generation() {
    let host = Host::new();
    let desired = host.config(&small_config("same", &[("/etc/managed.conf", "1\n")], &["one"]));
    let ours = host.update(&desired, None);
    let foreign = deploy_foreign(&host);
    let outcome = run(host.apply_command(&desired, None));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let new = host.default();
    assert_eq!(new.id().0, foreign.id().0);
    assert_ne!(new.generation(), ours.generation());
    assert_eq!(host.status()["deployments"][0]["generation"]["recordMatches"], true);
}
