//! Kills of changes that do not lead from one config to another: activation, and the repair of damage.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use serde_json::{Value, json};
use testbed::model::document::{file, with_files};

use crate::case::{Case, Scenario};
use crate::crashes::{explore, for_each_case};
use crate::kinds::VAR;

/// MachineConfig with files at both ends of links, a pre-image, keys and a unit.
fn config(name: &str, text: &str) -> Value {
    let files = [
        file("/etc/managed.conf", text),
        file("/etc/deep/er/managed.conf", text),
        file("/var/usrlocal/bin/by-hand", text),
        file(&format!("/usr/local/bin/only-{name}"), text),
        file("/opt/shared/both", "the same in both"),
    ];
    let mut config = with_files(&format!("rendered-{name}"), &files);
    let core = json!({"name": "core", "sshAuthorizedKeys": [format!("ssh-rsa AAAA{name}")]});
    let unit = json!({"name": "own.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"});
    config["spec"]["config"]["passwd"] = json!({"users": [core]});
    config["spec"]["config"]["systemd"] = json!({"units": [unit]});
    config
}

fn scenario(name: &str, before: Value, after: Value, damage: Option<fn(&Path)>) -> Scenario {
    Scenario { name: name.to_owned(), before: Some(before), after, mounts: VAR, actions: Vec::new(), damage }
}

#[test]
fn kills_at_the_activation_of_another_generation() {
    let nothing = || with_files("rendered-nothing", &[file("/etc/managed.conf", "1")]);
    let scenarios = vec![
        scenario("activated: another", config("a", "1"), config("b", "2"), None),
        scenario("activated: the first", nothing(), config("b", "2"), None),
        scenario("activated: none", config("a", "1"), nothing(), None),
    ];
    for_each_case(scenarios, Case::of_activation, explore);
}

/// Damage the tree in many ways at once.
fn damaged(root: &Path) {
    let at = |path: &str| root.join(path);
    fs::write(at("etc/managed.conf"), "changed by hand").unwrap();
    fs::remove_dir_all(at("etc/deep")).unwrap();
    fs::set_permissions(at("var/usrlocal/bin/by-hand"), Permissions::from_mode(0o600)).unwrap();
    chown(at("var/opt/shared/both"), Some(7), Some(8)).unwrap();
    fs::remove_file(at("var/usrlocal/bin/only-a")).unwrap();
    symlink("/etc/passwd", at("var/usrlocal/bin/only-a")).unwrap();
    fs::remove_file(at("etc/systemd/system/multi-user.target.wants/own.service")).unwrap();
}

#[test]
fn kills_at_the_repair_of_damage() {
    let same = || config("a", "1");
    for_each_case(vec![scenario("repaired", same(), same(), Some(damaged))], Case::of, explore);
}
