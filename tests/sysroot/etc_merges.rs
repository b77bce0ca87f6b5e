//! libostree's merge of `/etc`, predicted before it takes place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use osimage::Os;
use serde_json::{Value, json};
use testbed::model::run::Outcome;
use testbed::model::snapshot;
use testbed::offline::{Host, run, small_config};

/// A host on which a directory of the image, `/etc/os`, was replaced by a file.
fn host_with_a_file_for_a_directory() -> (Host, PathBuf) {
    let host = Host::new();
    let desired = host.config(&small_config("desired", &[("/etc/managed.conf", "1\n")], &["one"]));
    host.update(&desired, None);
    let directory = host.default().at("etc/os");
    fs::remove_dir_all(&directory).unwrap();
    fs::write(directory, "mine\n").unwrap();
    (host, desired)
}

fn plan(host: &Host, desired: &std::path::Path, image: Option<&str>, code: i32) -> Value {
    let mut command = host.command("plan");
    command.args(["-o", "json", "--desired"]).arg(desired);
    command.args(image.iter().flat_map(|image| ["--os-image", image]));
    let outcome = run(command);
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn etc_diff(host: &Host, arguments: &[&str]) -> Outcome {
    let mut command = host.command("etc-diff");
    command.args(arguments);
    let outcome = run(command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

/// The directories of all deployments, with or without a boot entry.
fn deployed(host: &Host) -> Vec<PathBuf> {
    let all = fs::read_dir(host.sysroot().join("ostree/deploy/fedora-coreos/deploy")).unwrap();
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn refused_merge_is_reported_before_deploying() {
    let (host, desired) = host_with_a_file_for_a_directory();
    let (boot, before) = (host.boot_snapshot(), deployed(&host));
    let next = host.config(&small_config("next", &[("/etc/managed.conf", "2\n")], &["one"]));
    let planned = plan(&host, &next, None, 1);
    assert_eq!(planned["etc"]["with"], "next");
    assert_eq!(planned["etc"]["refusals"][0]["path"], "/etc/os");
    let outcome = host.apply(&next, None);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("/etc/os is not a directory, but is one in the new image"),
        "{outcome:?}"
    );
    assert_eq!(snapshot::changes(&boot, &host.boot_snapshot()), [""; 0]);
    assert_eq!(deployed(&host), before);

    // A config that is applied already makes no deployment, so nothing is merged.
    assert_eq!(plan(&host, &desired, None, 0)["etc"]["due"], false);
    let outcome = host.apply(&desired, None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");

    fs::remove_file(host.default().at("etc/os")).unwrap();
    host.update(&next, None);
}

#[test]
fn imported_image_is_checked_before_deploying() {
    let (host, desired) = host_with_a_file_for_a_directory();
    let (boot, before) = (host.boot_snapshot(), deployed(&host));
    let image = host.image(&Os::new(2));
    let planned = plan(&host, &desired, Some(&image), 0);
    assert_eq!((&planned["etc"]["with"], &planned["etc"]["due"]), (&json!("present"), &json!(true)));
    assert_eq!(planned["etc"]["refusals"][0]["reason"], "newlyDirectory");

    let outcome = host.apply(&desired, Some(&image));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("/etc cannot be merged into the new deployment"), "{outcome:?}");
    assert!(outcome.stderr.contains("/etc/os is not a directory"), "{outcome:?}");
    assert_eq!(snapshot::changes(&boot, &host.boot_snapshot()), [""; 0]);
    assert_eq!(deployed(&host), before);
    assert!(
        !host.sysroot().join("ostree/repo/tmp/flameholder-etc").exists(),
        "the temporary checkout is removed"
    );

    fs::remove_file(host.default().at("etc/os")).unwrap();
    host.update(&desired, Some(&image));
}

#[test]
fn etc_diff_compares_with_own_image_and_other_deployment() {
    let host = Host::new();
    let installed = host.default();
    fs::write(installed.at("etc/chrony.conf"), "server mine\n").unwrap();
    fs::set_permissions(installed.at("etc/crio"), fs::Permissions::from_mode(0o700)).unwrap();
    let secret = "a secret word\n";
    fs::write(installed.at("etc/own.conf"), secret).unwrap();
    let alone = etc_diff(&host, &[]);
    for words in
        ["compared with its own image", "~ /etc/chrony.conf", "~ /etc/crio  mode or owner", "+ /etc/own.conf"]
    {
        assert!(alone.stdout.contains(words), "{words} in {}", alone.stdout);
    }
    assert!(!alone.stdout.contains(secret.trim()));

    let desired = host.config(&small_config("desired", &[], &[]));
    let updated = host.update(&desired, Some(&host.image(&Os::new(2))));
    let commit = installed.root.file_name().unwrap().to_str().unwrap().to_owned();
    let back = etc_diff(&host, &["-o", "json", "--to", &commit]);
    let back: Value = serde_json::from_str(&back.stdout).unwrap();
    assert!(updated.root.ends_with(format!(
        "{}.{}",
        back["from"]["commit"].as_str().unwrap(),
        back["from"]["serial"]
    )));
    let conflict = json!({"path": "/etc/chrony.conf", "local": "modify", "image": "modify"});
    assert_eq!(back["conflicts"], json!([conflict]));
    assert!(
        back["fromImage"]
            .as_array()
            .unwrap()
            .contains(&json!({"path": "/etc/os/version-1.conf", "change": "add"}))
    );
    let mut unknown = host.command("etc-diff");
    unknown.args(["--to", "0000"]);
    let outcome = run(unknown);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("no deployment 0000"), "{outcome:?}");
}
