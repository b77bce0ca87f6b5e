//! SELinux labels of written files: those of the new deployment's policy.

use std::path::Path;

use osimage::Os;
use rustix::fs::lgetxattr;
use serde_json::json;
use testbed::offline::{Host, small_config};

use crate::mounts::run_between;

const UNIT: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

/// The label of a path, without its terminating null byte.
fn label(path: &Path) -> String {
    let mut buffer = [0; 256];
    let length = lgetxattr(path, "security.selinux", &mut buffer).expect("a label");
    let text = str::from_utf8(&buffer[..length]).unwrap();
    text.strip_suffix('\0').unwrap_or(text).to_owned()
}

/// libostree rebuilds the policy with the image's `semodule` in a sandbox. This image has no `semodule`, so the
/// sandbox is replaced by a program without effect.
fn with_sandbox(host: &Host) -> String {
    let layers = host.path("programs");
    let layers = layers.display();
    format!(
        "mkdir -p {layers}\nmount -t tmpfs tmpfs {layers}\nmkdir {layers}/upper {layers}/work\n\
         mount -t overlay -o lowerdir=/usr/bin,upperdir={layers}/upper,workdir={layers}/work overlay /usr/bin\n\
         ln -sf true /usr/bin/bwrap"
    )
}

#[test]
fn written_files_are_labelled_by_policy_of_new_deployment() {
    let host = Host::new();
    let mut config = small_config(
        "labelled",
        &[("/etc/kubernetes/new/file", "1\n"), ("/etc/managed.conf", "1\n"), ("/etc/hosts", "1\n")],
        &[],
    );
    let ignition = &mut config["spec"]["config"];
    ignition["storage"]["links"] = json!([{"path": "/etc/kubernetes/link", "target": "new/file"}]);
    ignition["storage"]["directories"] = json!([{"path": "/etc/kubernetes/made"}]);
    ignition["passwd"] = json!({"users": [{"name": "core", "passwordHash": "$6$salt$hash"}]});
    ignition["systemd"] = json!({"units": [
        {"name": "own.service", "enabled": true, "contents": UNIT,
         "dropins": [{"name": "10.conf", "contents": "[Service]\nNice=1\n"}]},
        {"name": "rpcbind.socket", "mask": true},
    ]});
    let desired = host.config(&config);
    let image = host.image(&Os::new(2).with_selinux());
    let outcome = run_between(&with_sandbox(&host), &host.apply_command(&desired, Some(&image)), "");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let entry = host.default();
    let unlike: Vec<String> = [
        ("etc/kubernetes", "kubernetes_file_t"),
        ("etc/kubernetes/new", "kubernetes_file_t"),
        ("etc/kubernetes/new/file", "kubernetes_file_t"),
        ("etc/kubernetes/made", "kubernetes_file_t"),
        ("etc/kubernetes/link", "kubernetes_file_t"),
        ("etc/managed.conf", "etc_t"),
        ("etc/hosts", "etc_t"),
        ("etc/shadow", "shadow_t"),
        ("etc/systemd/system/own.service", "systemd_unit_file_t"),
        ("etc/systemd/system/own.service.d", "systemd_unit_file_t"),
        ("etc/systemd/system/own.service.d/10.conf", "systemd_unit_file_t"),
        ("etc/systemd/system/multi-user.target.wants", "systemd_unit_file_t"),
        ("etc/systemd/system/multi-user.target.wants/own.service", "systemd_unit_file_t"),
        ("etc/systemd/system/rpcbind.socket", "systemd_unit_file_t"),
        ("etc/flameholder", "etc_t"),
        ("etc/flameholder/generation", "etc_t"),
        ("etc/machine-config-daemon", "etc_t"),
        ("etc/machine-config-daemon/currentconfig", "etc_t"),
    ]
    .into_iter()
    .filter_map(|(path, kind)| {
        let (found, wanted) = (label(&entry.at(path)), format!("system_u:object_r:{kind}:s0"));
        (found != wanted).then(|| format!("{path} is {found}, not {wanted}"))
    })
    .collect();
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}
