//! SELinux labels on a booted host: of a staged generation, of a live update, and their drift.

use std::fs;
use std::path::Path;

use osimage::Os;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use serde_json::Value;
use testbed::booted::config::{Config, full_config};
use testbed::booted::host::{Host, record};

/// Finalize as the service does. libostree rebuilds the policy with the image's `semodule` in a sandbox; the image
/// has none, so the sandbox is replaced by a program without effect.
const FINALIZE: &str = "mkdir /tmp/upper /tmp/work && \
    mount -t overlay -o lowerdir=/usr/bin,upperdir=/tmp/upper,workdir=/tmp/work overlay /usr/bin && \
    ln -sf true /usr/bin/bwrap && exec unshare --mount flameholder finalize";

fn label(path: &Path) -> String {
    let mut buffer = [0; 256];
    let length = lgetxattr(path, "security.selinux", &mut buffer).unwrap_or_default();
    String::from_utf8_lossy(&buffer[..length]).trim_end_matches('\0').to_owned()
}

fn set_label(path: &Path, kind: &str) {
    let label = format!("system_u:object_r:{kind}:s0\0");
    lsetxattr(path, "security.selinux", label.as_bytes(), XattrFlags::empty()).unwrap();
}

fn assert_label(path: &Path, kind: &str) {
    assert_eq!(label(path), format!("system_u:object_r:{kind}:s0"), "{}", path.display());
}

/// Host with SELinux and the directories that systemd-tmpfiles labels.
fn labelled_host() -> Host {
    let host = Host::install(Os::new(1).with_selinux());
    for (path, kind) in [
        ("", "var_t"),
        ("usrlocal", "usr_t"),
        ("home", "home_root_t"),
        ("home/core", "user_home_dir_t"),
        ("roothome", "admin_home_t"),
        ("lib", "var_lib_t"),
        ("lib/kubelet", "var_lib_t"),
    ] {
        set_label(&host.var(path), kind);
    }
    host
}

/// Update the host with a reboot.
fn update(host: &Host, config: &Config) {
    host.stage_update(&host.config(config.json()), None);
    let finalized = host.run(["sh", "-c", FINALIZE]);
    assert_eq!(finalized.code, Some(0), "{finalized:?}");
    host.power_cut();
    host.boot().assert_success();
}

fn manifest(host: &Host) -> Value {
    let digest = record(&host.booted())["manifest"].as_str().unwrap().to_owned();
    let path = host.var("lib/flameholder/objects").join(digest.trim_start_matches("sha256:"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn staged_generation_is_activated_with_labels_of_its_policy() {
    let host = labelled_host();
    update(&host, &full_config("one").file_with_mode("/root/.ssh/config", 0o600, "one"));
    for (path, kind) in [
        ("usrlocal/bin", "bin_t"),
        ("usrlocal/bin/tool", "bin_t"),
        ("roothome/.ssh", "ssh_home_t"),
        ("roothome/.ssh/config", "ssh_home_t"),
        ("home/core/.ssh", "ssh_home_t"),
        ("home/core/.ssh/authorized_keys.d/ignition", "ssh_home_t"),
    ] {
        assert_label(&host.var(path), kind);
    }
    host.assert_no_drift();
    set_label(&host.var("usrlocal/bin/tool"), "usr_t");
    let verified = host.run(["flameholder", "verify"]);
    assert_eq!(verified.code, Some(2), "{verified:?}");
    assert!(verified.stdout.contains("/usr/local/bin/tool  label "), "{verified:?}");
    host.reboot();
    assert_label(&host.var("usrlocal/bin/tool"), "bin_t");
    host.assert_no_drift();
}

#[test]
fn live_update_labels_by_the_policy_of_the_booted_deployment() {
    const IN_ETC: &str = "nmstate/openshift/cluster.yml";
    let host = labelled_host();
    update(&host, &full_config("one"));
    let live = full_config("one")
        .key("ssh-ed25519 AAAA live")
        .file_with_mode(&format!("/etc/{IN_ETC}"), 0o644, "live")
        .file_with_mode("/var/lib/kubelet/config.json", 0o600, "live");
    let outcome = host.apply(&host.config(live.json()), None);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("no reboot is needed"), "{outcome:?}");
    for directory in ["nmstate", "nmstate/openshift", IN_ETC] {
        assert_label(&host.etc(directory), "nmstate_etc_t");
    }
    assert_label(&host.var("lib/kubelet/config.json"), "container_var_lib_t");
    assert_label(&host.var("home/core/.ssh/authorized_keys.d/ignition"), "ssh_home_t");
    let (record, manifest) = (record(&host.booted()), manifest(&host));
    assert_eq!(record["labels"][format!("/etc/{IN_ETC}")], "system_u:object_r:nmstate_etc_t:s0");
    assert!(record["labels"].as_object().unwrap().keys().all(|path| path.starts_with("/etc/")), "{record}");
    let labels = &manifest["labels"];
    assert_eq!(
        labels["/var/lib/kubelet/config.json"], "system_u:object_r:container_var_lib_t:s0",
        "{labels}"
    );
    assert_eq!(
        labels["/usr/local/bin/tool"], "system_u:object_r:bin_t:s0",
        "labels of before stay: {labels}"
    );
    host.assert_no_drift();
    set_label(&host.var("lib/kubelet/config.json"), "var_lib_t");
    assert_eq!(host.run(["flameholder", "verify"]).code, Some(2));
}
