//! Commands that change nothing: `apply` of the running config, `plan`, `verify` and `status`. A change of files keeps
//! the image.

use std::fs;
use std::process::Command;

use osimage::Os;
use testbed::boot::Entry;
use testbed::model::pairs::{fixtures, rendered};
use testbed::model::run::Outcome;
use testbed::model::snapshot;
use testbed::offline::{Host, run, small_config};

/// One line for each path that a command changed in the sysroot, except `ostree/lock`.
fn changes(host: &Host, command: Command) -> (Outcome, Vec<String>) {
    let before = host.snapshot();
    let outcome = run(command);
    (outcome, snapshot::changes(&before, &host.snapshot()))
}

fn assert_nothing_to_do(host: &Host, command: Command) {
    let (outcome, changes) = changes(host, command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.starts_with("nothing to do: "), "{outcome:?}");
    assert!(changes.is_empty(), "{}", changes.join("\n"));
}

#[test]
fn repeated_apply_changes_nothing() {
    let configs = [rendered(), fixtures()].concat();
    for path in configs.iter().take(2).chain(configs.last()) {
        let host = Host::new();
        let image = host.image(&Os::new(2));
        host.update(path, Some(&image));
        assert_nothing_to_do(&host, host.apply_command(path, Some(&image)));
        // The record names the image that stood in for the config's own.
        assert_nothing_to_do(&host, host.apply_command(path, None));
    }
}

#[test]
fn reading_commands_change_nothing() {
    let host = Host::new();
    let desired = host.config(&small_config("one", &[("/etc/managed.conf", "1\n")], &["one"]));
    host.update(&desired, None);
    for verb in ["verify", "status"] {
        let (outcome, changes) = changes(&host, host.command(verb));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(changes.is_empty(), "{verb}: {}", changes.join("\n"));
    }
    let mut plan = host.command("plan");
    plan.arg("--desired").arg(&desired);
    let (outcome, changes) = changes(&host, plan);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(changes.is_empty(), "plan: {}", changes.join("\n"));
}

fn origin(entry: &Entry) -> String {
    let mut file = entry.root.clone().into_os_string();
    file.push(".origin");
    fs::read_to_string(file).unwrap()
}

#[test]
fn files_update_deploys_the_same_commit_without_the_registry() {
    let host = Host::new();
    let image = host.image(&Os::new(2));
    let first = host.config(&small_config(
        "first",
        &[("/etc/managed.conf", "1\n"), ("/etc/hosts", "managed\n")],
        &[],
    ));
    let second = host.config(&small_config("second", &[("/etc/managed.conf", "2\n")], &[]));
    let first = host.update(&first, Some(&image));
    fs::remove_dir_all(host.path("images")).unwrap();
    fs::create_dir(host.path("no programs")).unwrap();
    let mut command = host.apply_command(&second, None);
    command.env("PATH", host.path("no programs"));
    let outcome = run(command);

    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let second = host.default();
    let (commit, serial) = first.id();
    assert_eq!(second.id(), (commit, serial + 1));
    assert_eq!(origin(&second), origin(&first));
    assert_eq!(fs::read_to_string(second.at("etc/managed.conf")).unwrap(), "2\n");
    let shipped = fs::read_to_string(second.at("usr/etc/hosts")).unwrap();
    assert_eq!(
        fs::read_to_string(second.at("etc/hosts")).unwrap(),
        shipped,
        "the image's own file is restored"
    );
    assert_eq!(fs::read_to_string(first.at("etc/managed.conf")).unwrap(), "1\n");
}
