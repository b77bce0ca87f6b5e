//! A config and an image become one new deployment, and nothing else changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use osimage::{Os, SysrootBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testbed::boot::{Entry, words};
use testbed::model::config::Config;
use testbed::model::pairs::{fixtures, load, rendered};
use testbed::model::snapshot;
use testbed::offline::{Host, record, small_config};

use crate::etc;

/// A host with kernel arguments of an installer and edits of an administrator.
fn lived_in() -> Host {
    testbed::preconditions::require_installed(&["systemctl"]);
    let installed = ["console=tty0", "console=ttyS0", "foreign=\"a b\"", "quiet"];
    let builder = installed
        .iter()
        .fold(SysrootBuilder::new(Os::new(1)), |builder, argument| builder.kernel_argument(argument));
    let host = Host::of(&builder);
    etc::administrate(&host.default().at("etc"));
    fs::create_dir_all(host.var().join("lib/kubelet")).unwrap();
    host
}

#[test]
fn each_real_config_and_a_new_image_become_a_deployment() {
    assert_each(&rendered(), becomes_a_deployment);
}

#[test]
fn each_fixture_and_a_new_image_become_a_deployment() {
    assert_each(&fixtures(), becomes_a_deployment);
}

/// Fails with all complaints about all configs at once.
fn assert_each(configs: &[PathBuf], check: impl Fn(&Path) -> Vec<String>) {
    let checked = configs.iter().map(|path| (path.display(), check(path)));
    let faulty = checked.filter(|(_, complaints)| !complaints.is_empty());
    let report: Vec<String> =
        faulty.map(|(path, complaints)| format!("{path}:\n{}", complaints.join("\n"))).collect();
    assert!(report.is_empty(), "{}", report.join("\n"));
}

fn becomes_a_deployment(path: &Path) -> Vec<String> {
    let host = lived_in();
    let image = host.image(&Os::new(2));
    let config = load(path);
    let before = host.default();
    let sight = host.deployment_snapshot(&before);
    let outcome = host.apply(path, Some(&image));
    if outcome.code != Some(0) {
        return vec![format!("{outcome:?}")];
    }

    let [new, previous] = host.entries().try_into().expect("two boot entries");
    let wanted = etc::expected(&new.root, etc::administrate, &config);
    let mut complaints = etc::differences(&etc::found(&new.root), &wanted);
    complaints.extend(arguments_unlike(&new, &before, &config));
    complaints.extend(record_unlike(&new, &config, path));
    complaints.extend(snapshot::changes(&sight, &host.deployment_snapshot(&before)));
    if (&previous.root, &previous.arguments) != (&before.root, &before.arguments) {
        complaints.push(format!("the entry {before:?} became {previous:?}"));
    }
    if !new.at("usr/etc/os/version-2.conf").is_file() {
        complaints.push(format!("{new:?} is not the new image"));
    }
    complaints
}

#[test]
fn a_directory_or_link_that_waits_for_activation_is_named() {
    let host = Host::new();
    let mut config = small_config("elsewhere", &[], &[]);
    config["spec"]["config"]["storage"] = json!({
        "directories": [{"path": "/var/lib/made"}],
        "links": [{"path": "/var/lib/link", "target": "/etc"}],
    });
    let left_out = record(&host.update(&host.config(&config), None))["deferred"].to_string();
    for path in ["/var/lib/made", "/var/lib/link"] {
        assert!(!host.var().join(path.trim_start_matches("/var/")).exists());
        assert!(left_out.contains(path), "{path} is neither made nor left out: {left_out}");
    }
}

fn arguments_unlike(new: &Entry, before: &Entry, config: &Config) -> Option<String> {
    let configured: Vec<String> = config.kernel_arguments.iter().flat_map(|line| words(line)).collect();
    // What reads like one that the config lists is the config's from now on.
    let mut wanted = before.arguments.clone();
    wanted.retain(|argument| !configured.contains(argument));
    wanted.extend(configured);
    let found = new.plain_arguments();
    (found != wanted).then(|| format!("kernel arguments are {found:?}, not {wanted:?}"))
}

fn record_unlike(new: &Entry, config: &Config, path: &Path) -> Vec<String> {
    let record = record(new);
    let deployment = &record["deployment"];
    let (commit, serial) = new.id();
    let current = new.at("etc/machine-config-daemon/currentconfig");
    let bytes = fs::read(&current).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    let hash = format!("{:x}", Sha256::digest(&bytes));
    let desired: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let left_out = record["deferred"].to_string();
    let unnamed = config.files.keys().filter(|path| !path.starts_with("/etc/") && !left_out.contains(*path));
    let facts = [
        ("generation", record["generation"] == new.generation().as_str()),
        ("stateroot", deployment["stateroot"] == "fedora-coreos"),
        ("commit", deployment["commit"] == commit.as_str()),
        ("serial", deployment["serial"] == serial),
        ("config's name", record["config"] == config.name.as_str()),
        ("config's hash", record["configHash"].as_str().unwrap().ends_with(&hash)),
        ("current config", document["spec"] == desired["spec"]),
        ("current config's mode", current.metadata().unwrap().mode() & 0o7777 == 0o600),
    ];
    let wrong = facts.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| format!("{what} in {record}"));
    wrong.chain(unnamed.map(|path| format!("deferred does not name {path}: {left_out}"))).collect()
}
