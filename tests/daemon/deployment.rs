//! Manifests in `deploy/kubernetes`: the API server knows each of their fields, and the scripts of the
//! DaemonSet's pod install and start the agent on a host.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handover::{mcd_host, run_with_systemd};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/kubernetes");

pub(crate) fn documents(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(FOLDER).join(name)).unwrap();
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// Panics if a field is unknown to the type of the object: the API server would drop it.
fn assert_known(written: &Value, known: &Value, at: &str) {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            for (key, value) in written {
                let found = known.get(key).unwrap_or_else(|| panic!("{at}.{key} is unknown"));
                assert_known(value, found, &format!("{at}.{key}"));
            }
        }
        (Value::Array(written), Value::Array(known)) => {
            assert_eq!(written.len(), known.len(), "{at}");
            for (written, known) in written.iter().zip(known) {
                assert_known(written, known, at);
            }
        }
        _ => assert_eq!(written, known, "{at}"),
    }
}

pub(crate) fn assert_valid<K: DeserializeOwned + Serialize>(document: &Value) {
    let parsed: K = serde_json::from_value(document.clone()).unwrap();
    assert_known(document, &serde_json::to_value(parsed).unwrap(), document["kind"].as_str().unwrap());
}

/// Names of the manifests in a folder, without what is not sent to the API server.
pub(crate) fn manifest_names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(Path::new(FOLDER).join(folder)).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let names = files.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name != "Containerfile" && name != "kustomization.yaml").collect()
}

#[test]
fn manifests_are_listed_and_have_known_fields_only() {
    let listed = &documents("kustomization.yaml")[0]["resources"];
    let listed: BTreeSet<String> = serde_json::from_value(listed.clone()).unwrap();
    let files = manifest_names(".");
    assert_eq!(listed, files);
    for document in files.iter().flat_map(|name| documents(name)) {
        match document["kind"].as_str().unwrap() {
            "ServiceAccount" => assert_valid::<ServiceAccount>(&document),
            "ClusterRole" => assert_valid::<ClusterRole>(&document),
            "ClusterRoleBinding" => assert_valid::<ClusterRoleBinding>(&document),
            "Role" => assert_valid::<Role>(&document),
            "RoleBinding" => assert_valid::<RoleBinding>(&document),
            "DaemonSet" => assert_valid::<DaemonSet>(&document),
            "ValidatingAdmissionPolicy" => assert_valid::<ValidatingAdmissionPolicy>(&document),
            "ValidatingAdmissionPolicyBinding" => assert_valid::<ValidatingAdmissionPolicyBinding>(&document),
            other => panic!("{other}"),
        }
    }
}

/// Stand-in for systemd-run: skip its options and run the command.
const SYSTEMD_RUN: &str =
    "#!/bin/sh\nwhile case $1 in --*) true;; *) false;; esac; do shift; done\nexec \"$@\"\n";

#[test]
fn pod_adopts_its_node() {
    let host = mcd_host();
    let set = documents("daemon-set.yaml").remove(0);
    let script = set["spec"]["template"]["spec"]["initContainers"][1]["args"][0].as_str().unwrap().to_owned();
    // In this test the pod's programs are those of the host.
    let script = script
        .replace("/usr/bin/flameholder", "/run/programs/flameholder")
        .replace("/usr/libexec/flameholder/flameholder-ostree", "/run/programs/flameholder-ostree")
        .replace("/rootfs", "/run/rootfs");
    symlink("/", host.path("run/rootfs")).unwrap();
    host.put_script("systemd-run", SYSTEMD_RUN);
    let command = format!("export NODE_NAME=edge-7; {script}");
    let (outcome, calls) = run_with_systemd(&host, &["sh", "-ec", &command]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(calls.iter().any(|call| call == "RestartUnit flameholder-daemon.service replace"), "{calls:?}");
    let environment = "FLAMEHOLDER_SOURCE=kube\nFLAMEHOLDER_KUBECONFIG=/run/flameholder/cluster/kubeconfig\n\
                       FLAMEHOLDER_NODE_KUBECONFIG=/var/lib/kubelet/kubeconfig\nNODE_NAME=edge-7\n";
    assert_eq!(host.read_etc("flameholder/daemon.env").as_deref(), Some(environment));
    let command = fs::read_link(host.var("usrlocal/bin/flameholder")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(command, PathBuf::from(format!("../libexec/flameholder/{version}/flameholder")));
    for name in ["flameholder", "flameholder-ostree"] {
        assert!(host.var(&format!("usrlocal/libexec/flameholder/{version}/{name}")).is_file(), "{name}");
    }
    host.assert_no_drift();
}

#[test]
fn replaced_token_is_copied_to_the_host() {
    let (host, account) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kubeconfig = host.path().join("etc/kubernetes/kubeconfig");
    fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    fs::write(kubeconfig, r#"{"clusters": [{"name": "c", "cluster": {"server": "https://x:6443"}}], "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}"#).unwrap();
    // The kubelet mounts and replaces a token in the same way.
    let put_token = |token: &str| {
        let directory = account.path().join(format!("..{token}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("token"), token).unwrap();
        symlink(format!("..{token}"), account.path().join("..data_tmp")).unwrap();
        fs::rename(account.path().join("..data_tmp"), account.path().join("..data")).unwrap();
    };
    put_token("one");
    symlink("..data/token", account.path().join("token")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_flameholder"))
        .arg("introduce")
        .args([Path::new("--host"), host.path(), Path::new("--account"), account.path()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let token = host.path().join("run/flameholder/cluster/token");
    let mut wait_for_token = |expected: &str| {
        while fs::read_to_string(&token).ok().as_deref() != Some(expected) {
            let line = lines.next().unwrap().unwrap();
            assert!(line.contains("wrote kubeconfig and token of this pod on the host"), "{line}");
        }
    };
    wait_for_token("one");
    put_token("two");
    wait_for_token("two");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
