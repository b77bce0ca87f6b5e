//! SELinux labels of written files: those of the new deployment's policy.

use std::path::Path;

use osimage::{Os, PolicyPaths, SysrootBuilder};
use rustix::fs::lgetxattr;
use serde_json::{Value, json};
use testbed::model::document::file;
use testbed::offline::{Host, record, run, small_config};

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

/// Labels that differ from those of the directories above.
const OUTSIDE: [(&str, &str); 12] = [
    ("usrlocal", "usr_t"),
    ("usrlocal/bin", "bin_t"),
    ("usrlocal/bin/tool", "bin_t"),
    ("usrlocal/bin/link", "bin_t"),
    ("usrlocal/sbin/other", "bin_t"),
    ("roothome/.ssh", "ssh_home_t"),
    ("roothome/.ssh/config", "ssh_home_t"),
    ("home/core/.ssh", "ssh_home_t"),
    ("home/core/.ssh/authorized_keys.d", "ssh_home_t"),
    ("home/core/.ssh/authorized_keys.d/ignition", "ssh_home_t"),
    ("opt/app/tool", "usr_t"),
    ("lib/kubelet/config.json", "container_var_lib_t"),
];

/// Config with files outside `/etc`, some by the path of a link in the image, some by that in `/var`.
fn config_outside_etc(name: &str) -> Value {
    let paths = [
        "/usr/local/bin/tool",
        "/var/usrlocal/sbin/other",
        "/root/.ssh/config",
        "/var/opt/app/tool",
        "/var/lib/kubelet/config.json",
    ];
    let mut config = small_config(name, &paths.map(|path| (path, name)), &[]);
    let ignition = &mut config["spec"]["config"];
    ignition["storage"]["links"] = json!([{"path": "/usr/local/bin/link", "target": "tool"}]);
    ignition["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAA"]}]});
    config
}

/// Apply a config to a host with SELinux, and activate it.
fn apply_and_activate(host: &Host, config: &Value, image: Option<&str>) {
    let applying = host.apply_command(&host.config(config), image);
    let outcome = run_between(&with_sandbox(host), &applying, "");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = run(host.command("activate"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

fn unlike_outside(host: &Host) -> Vec<String> {
    let labels = OUTSIDE.iter().filter_map(|(path, kind)| {
        let (found, wanted) = (label(&host.var().join(path)), format!("system_u:object_r:{kind}:s0"));
        (found != wanted).then(|| format!("/var/{path} is {found}, not {wanted}"))
    });
    labels.collect()
}

/// The manifest of the default deployment's generation.
fn manifest(host: &Host) -> (std::path::PathBuf, Value) {
    let digest = record(&host.default())["manifest"].as_str().unwrap().to_owned();
    let path = host.var().join("lib/flameholder/objects").join(digest.trim_start_matches("sha256:"));
    let manifest = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (path, manifest)
}

fn set_label(path: &Path, kind: &str) {
    let label = format!("system_u:object_r:{kind}:s0\0");
    rustix::fs::lsetxattr(path, "security.selinux", label.as_bytes(), rustix::fs::XattrFlags::empty())
        .unwrap();
}

#[test]
fn files_outside_etc_are_labelled_by_policy_of_new_deployment() {
    for paths in [PolicyPaths::Fedora, PolicyPaths::Plain, PolicyPaths::RpmOstree] {
        let host = Host::new();
        let image = host.image(&Os::new(2).with_policy(paths));
        apply_and_activate(&host, &config_outside_etc("outside"), Some(&image));
        assert_eq!(unlike_outside(&host), [""; 0], "{paths:?}");
        let labels = manifest(&host).1["labels"].clone();
        assert_eq!(labels["/var/usrlocal/sbin/other"], "system_u:object_r:bin_t:s0", "{labels}");
        assert!(record(&host.default())["labels"].get("/usr/local/bin/tool").is_none());
    }
}

#[test]
fn label_of_an_earlier_generation_gives_way_to_the_policy() {
    let host = Host::of(&SysrootBuilder::new(Os::new(1).with_selinux()));
    apply_and_activate(&host, &config_outside_etc("one"), None);
    let [tool, config] = ["usrlocal/bin/tool", "lib/kubelet/config.json"].map(|path| host.var().join(path));
    set_label(&tool, "usr_t");
    set_label(&config, "var_lib_t");
    assert_eq!(host.verify().code, Some(0), "/var may belong to another generation");
    let mut two = config_outside_etc("one");
    two["metadata"]["name"] = json!("two");
    two["spec"]["config"]["storage"]["files"].as_array_mut().unwrap().push(file("/etc/two", "2\n"));
    apply_and_activate(&host, &two, None);
    assert_eq!(unlike_outside(&host), [""; 0], "files with equal content are labelled too");
}

#[test]
fn manifest_without_labels_is_activated_with_those_of_the_directories() {
    let host = Host::of(&SysrootBuilder::new(Os::new(1).with_selinux()));
    let applying = host.apply_command(&host.config(&config_outside_etc("old")), None);
    assert_eq!(run_between(&with_sandbox(&host), &applying, "").code, Some(0));
    let (path, mut document) = manifest(&host);
    document.as_object_mut().unwrap().remove("labels").unwrap();
    let text = format!("{document}\n");
    let digest = flameholder::core::values::tree::ContentDigest::of(text.as_bytes()).to_string();
    std::fs::write(path.with_file_name(digest.trim_start_matches("sha256:")), text).unwrap();
    std::fs::remove_file(path).unwrap();
    let mut old = record(&host.default());
    old["manifest"] = json!(digest);
    std::fs::write(host.default().at("etc/flameholder/generation"), format!("{old}\n")).unwrap();
    let outcome = run(host.command("activate"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let found = label(&host.var().join("lib/kubelet/config.json"));
    assert_eq!(found, label(&host.var().join("lib")), "the label of the directory above");
    assert_eq!(host.verify().code, Some(0));
}

#[test]
fn activation_restores_labels_and_keeps_them_when_contents_are_lost() {
    let host = Host::of(&SysrootBuilder::new(Os::new(1).with_selinux()));
    apply_and_activate(&host, &config_outside_etc("one"), None);
    let (path, _) = manifest(&host);
    let objects = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|object| object.unwrap().path());
    for content in objects.filter(|object| *object != path) {
        std::fs::remove_file(content).unwrap();
    }
    let before = std::fs::read(&path).unwrap();
    set_label(&host.var().join("usrlocal/bin/tool"), "usr_t");
    std::fs::remove_dir_all(host.var().join("roothome/.ssh")).unwrap();
    let outcome = run(host.command("activate"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(unlike_outside(&host), [""; 0]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(manifest(&host).0, path);
}
