//! Refused requests: one clear message, the documented exit code, and an unchanged boot menu.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use osimage::Os;
use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::{Value, json};
use testbed::model::document::file;
use testbed::model::run::Outcome;
use testbed::model::snapshot;
use testbed::offline::{Host, OSTREE_LOCK, install, run, small_config};

const FAILED: i32 = 1;
const USAGE: i32 = 64;
const TRY_AGAIN: i32 = 75;
const CONFIG: i32 = 78;

/// Runs a command that must fail with this code and one message that contains these words, without changing boot
/// entries or deployments.
fn assert_refused(host: &Host, command: Command, code: i32, words: &[&str]) {
    let (boot, deployment) = (host.boot_snapshot(), host.default());
    let sight = host.deployment_snapshot(&deployment);
    let outcome = run(command);
    assert_message(&outcome, code, words);
    assert_eq!(snapshot::changes(&boot, &host.boot_snapshot()), [""; 0], "boot entries");
    assert_eq!(
        snapshot::changes(&sight, &host.deployment_snapshot(&deployment)),
        [""; 0],
        "the default deployment"
    );
}

fn assert_message(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    let messages = outcome
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: ") || line.starts_with("flameholder: "));
    assert_eq!(messages.count(), 1, "{}", outcome.stderr);
    for word in words {
        assert!(outcome.stderr.contains(word), "{word} in {}", outcome.stderr);
    }
}

/// A host, and a config with one file for it.
fn host_and_config() -> (Host, PathBuf) {
    let host = Host::new();
    let desired = host.config(&small_config("desired", &[("/etc/managed.conf", "1\n")], &["one"]));
    (host, desired)
}

#[test]
fn locked_sysroot_is_busy_until_unlocked() {
    let (host, desired) = host_and_config();
    let lock = File::create(host.sysroot().join(OSTREE_LOCK)).unwrap();
    fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_refused(
        &host,
        host.apply_command(&desired, None),
        TRY_AGAIN,
        &["is locked by sysroot-", "(process "],
    );
    assert_refused(&host, host.command("rollback"), TRY_AGAIN, &["is locked by sysroot-", "(process "]);
    assert_eq!(host.status()["deployments"].as_array().unwrap().len(), 1, "readers need no lock");
    drop(lock);
    host.update(&desired, None);
}

#[test]
fn malformed_image_reference_is_reported_with_its_source() {
    let (host, desired) = host_and_config();
    for reference in ["", "not an image", "ostree-unverified-image:nowhere", "quay.io/UPPER:tag@sha256:1"] {
        assert_refused(&host, host.apply_command(&desired, Some(reference)), USAGE, &[]);
        if reference.is_empty() {
            continue;
        }
        let mut config = small_config("malformed", &[], &[]);
        config["spec"]["osImageURL"] = json!(reference);
        assert_refused(&host, host.apply_command(&host.config(&config), None), CONFIG, &["spec.osImageURL"]);
    }
}

#[test]
fn missing_or_damaged_image_is_named() {
    let (host, desired) = host_and_config();
    let image = host.image(&Os::new(2));
    let missing = format!("{image}-missing");
    assert_refused(&host, host.apply_command(&desired, Some(&missing)), FAILED, &[&missing]);
    let nowhere = "ostree-unverified-image:oci:/nowhere/at/all";
    assert_refused(&host, host.apply_command(&desired, Some(nowhere)), FAILED, &[nowhere]);

    let blobs = fs::read_dir(host.path("images/blobs/sha256")).unwrap().map(|blob| blob.unwrap().path());
    let layer = blobs.max_by_key(|blob| blob.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(layer, bytes).unwrap();
    assert_refused(
        &host,
        host.apply_command(&desired, Some(&image)),
        FAILED,
        &[&image, "the image is damaged"],
    );
    host.update(&desired, Some(&host.image(&Os::new(3))));
}

#[test]
fn missing_skopeo_is_named() {
    let (host, desired) = host_and_config();
    let image = host.image(&Os::new(2));
    fs::create_dir(host.path("no programs")).unwrap();
    let mut command = host.apply_command(&desired, Some(&image));
    command.env("PATH", host.path("no programs"));
    assert_refused(&host, command, FAILED, &["skopeo is not installed"]);
}

/// `flameholder apply` run by an executable with this worker beside it, or with none.
fn apply_with_worker(host: &Host, desired: &Path, worker: Option<&str>) -> Command {
    let directory = host.path("bin");
    let original = host.apply_command(desired, None);
    fs::create_dir_all(&directory).unwrap();
    install(Path::new(original.get_program()), &directory.join("flameholder"));
    if let Some(script) = worker {
        let source = host.path("script");
        fs::write(&source, script).unwrap();
        install(&source, &directory.join("flameholder-ostree"));
    }
    let mut command = Command::new(directory.join("flameholder"));
    command.args(original.get_args());
    command
}

#[test]
fn missing_or_killed_worker_is_reported() {
    let (host, desired) = host_and_config();
    let missing = apply_with_worker(&host, &desired, None);
    assert_refused(&host, missing, FAILED, &["no flameholder-ostree found", "bin/flameholder-ostree"]);
    let killed = apply_with_worker(&host, &desired, Some("#!/bin/sh\necho last words >&2\nkill -KILL $$\n"));
    assert_refused(&host, killed, FAILED, &["SIGKILL", "last words"]);
    let silent = apply_with_worker(&host, &desired, Some("#!/bin/sh\nexit 3\n"));
    assert_refused(&host, silent, FAILED, &["flameholder-ostree ended early"]);
}

#[test]
fn path_without_sysroot_or_deployment_is_refused() {
    let (host, desired) = host_and_config();
    let empty = host.path("empty");
    fs::create_dir(&empty).unwrap();
    let on = |sysroot: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flameholder"));
        command.arg("apply").arg("--sysroot").arg(sysroot).arg("--desired").arg(&desired);
        run(command)
    };
    assert_message(&on(&empty), FAILED, &["is not an OSTree sysroot"]);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "nothing was created there");
    assert_message(&on(&host.path("absent")), FAILED, &["is not an OSTree sysroot"]);
    let fresh = host.path("fresh");
    fs::create_dir(&fresh).unwrap();
    let init = Command::new("ostree").args(["admin", "init-fs"]).arg(&fresh).status().unwrap();
    assert!(init.success());
    assert_message(&on(&fresh), FAILED, &["has no deployment"]);
}

#[test]
fn unwritable_paths_are_named() {
    let (host, _) = host_and_config();
    let in_image = host.config(&small_config("image", &[("/etc/a", "1\n"), ("/usr/lib/b", "1\n")], &[]));
    assert_refused(
        &host,
        host.apply_command(&in_image, None),
        FAILED,
        &["spec.config.storage.files[1].path", "/usr/lib/b"],
    );
    let occupied = host.default().at("etc/occupied");
    fs::create_dir(&occupied).unwrap();
    fs::write(occupied.join("foreign"), "foreign\n").unwrap();
    let occupied = host.config(&small_config("occupied", &[("/etc/occupied", "1\n")], &[]));
    assert_refused(&host, host.apply_command(&occupied, None), FAILED, &["/etc/occupied"]);
    let image = host.image(&Os::new(2));
    assert_refused(&host, host.apply_command(&occupied, Some(&image)), FAILED, &["/etc/occupied"]);
}

#[test]
fn top_level_name_is_that_of_the_new_image() {
    const LACKING: &[&str] = &["spec.config.storage.files[1].path", "/site/x", "the OS image lacks"];
    let host = Host::new();
    let config = host.config(&small_config("site", &[("/etc/a", "1\n"), ("/site/x", "1\n")], &[]));
    let [with, without] = [Os::new(2).linking("site"), Os::new(3)].map(|os| host.image(&os));
    assert_refused(&host, host.apply_command(&config, None), FAILED, LACKING);
    assert_refused(&host, host.apply_command(&config, Some(&without)), CONFIG, LACKING);
    host.update(&config, Some(&with));
    assert_refused(&host, host.apply_command(&config, Some(&without)), CONFIG, LACKING);
}

fn owned_by(name: &str) -> Value {
    let mut config = small_config(&format!("owned-by-{name}"), &[], &[]);
    let mut owned = file("/etc/owned.conf", "1\n");
    owned["user"] = json!({"name": name});
    config["spec"]["config"]["storage"]["files"] = json!([file("/etc/first.conf", "1\n"), owned]);
    config
}

#[test]
fn owners_are_those_of_the_new_image() {
    let host = Host::new();
    // The old image does not have this user. The file is a hard link to the repository's object, so it is replaced
    // and not edited.
    let passwd = host.default().at("usr/lib/passwd");
    let text = fs::read_to_string(&passwd).unwrap();
    fs::remove_file(&passwd).unwrap();
    let before: String =
        text.lines().filter(|line| !line.starts_with("chrony:")).map(|line| format!("{line}\n")).collect();
    fs::write(&passwd, before).unwrap();

    let image = host.image(&Os::new(2));
    let (missing, chrony) = (host.config(&owned_by("missing-user")), host.config(&owned_by("chrony")));
    let field = "spec.config.storage.files[1].user.name";
    assert_refused(&host, host.apply_command(&missing, None), CONFIG, &[field, "missing-user"]);
    assert_refused(&host, host.apply_command(&missing, Some(&image)), CONFIG, &[field, "missing-user"]);
    assert_refused(&host, host.apply_command(&chrony, None), CONFIG, &[field, "chrony"]);
    let owned = host.update(&chrony, Some(&image)).at("etc/owned.conf");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&owned.metadata().unwrap()), 994);
}
