//! Manifests in `deploy/kubernetes`: the API server knows each of their fields, and the scripts of the
//! DaemonSet's pod install and start the agent on a host.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flameholder::core::values::image::ImageRef;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
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

/// Names of the manifests in a folder that are sent to the API server.
pub(crate) fn manifest_names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(Path::new(FOLDER).join(folder)).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let names = files.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name != "Containerfile" && name != "kustomization.yaml").collect()
}

#[test]
fn manifests_are_listed_and_have_known_fields_only() {
    for folder in ["base", "reboot-lock", "standalone"] {
        assert_listed_and_known(folder);
    }
}

fn assert_listed_and_known(folder: &str) {
    let listed = &documents(&format!("{folder}/kustomization.yaml"))[0]["resources"];
    let listed: BTreeSet<String> = serde_json::from_value(listed.clone()).unwrap();
    let files = manifest_names(folder);
    assert_eq!(listed, files);
    for document in files.iter().flat_map(|name| documents(&format!("{folder}/{name}"))) {
        match document["kind"].as_str().unwrap() {
            "CustomResourceDefinition" => assert_valid::<CustomResourceDefinition>(&document),
            "Namespace" => assert_valid::<Namespace>(&document),
            "ServiceAccount" => assert_valid::<ServiceAccount>(&document),
            "ClusterRole" => assert_valid::<ClusterRole>(&document),
            "ClusterRoleBinding" => assert_valid::<ClusterRoleBinding>(&document),
            "Role" => assert_valid::<Role>(&document),
            "RoleBinding" => assert_valid::<RoleBinding>(&document),
            "DaemonSet" => assert_valid::<DaemonSet>(&document),
            "SecurityContextConstraints" => drop(constraints(&document)),
            "ValidatingAdmissionPolicy" => assert_valid::<ValidatingAdmissionPolicy>(&document),
            "ValidatingAdmissionPolicyBinding" => assert_valid::<ValidatingAdmissionPolicyBinding>(&document),
            other => panic!("{other}"),
        }
    }
}

/// Fields of `SecurityContextConstraints` (`security.openshift.io/v1`), of which no library has the type.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "fields that are only checked for their names and types")]
struct ConstraintFields {
    api_version: String,
    kind: String,
    metadata: Value,
    #[serde(rename = "allowHostDirVolumePlugin")]
    allow_host_dir: bool,
    #[serde(rename = "allowHostIPC")]
    allow_host_ipc: bool,
    allow_host_network: bool,
    #[serde(rename = "allowHostPID")]
    allow_host_pid: bool,
    allow_host_ports: bool,
    allow_privilege_escalation: bool,
    allow_privileged_container: bool,
    allowed_capabilities: Vec<String>,
    default_add_capabilities: Vec<String>,
    required_drop_capabilities: Vec<String>,
    read_only_root_filesystem: bool,
    run_as_user: Value,
    #[serde(rename = "seLinuxContext")]
    selinux_context: Value,
    fs_group: Value,
    supplemental_groups: Value,
    seccomp_profiles: Vec<String>,
    volumes: BTreeSet<String>,
    users: Vec<String>,
    groups: Vec<String>,
}

fn constraints(document: &Value) -> ConstraintFields {
    serde_json::from_value(document.clone()).unwrap()
}

#[test]
fn kustomization_names_an_image_for_every_container() {
    let base: DaemonSet = serde_json::from_value(documents("base/daemon-set.yaml").remove(0)).unwrap();
    let pod = base.spec.unwrap().template.spec.unwrap();
    let overlay = &documents("kustomization.yaml")[0];
    assert_eq!(overlay["resources"], serde_json::json!(["base"]));
    let image = &overlay["images"][0];
    for container in pod.init_containers.iter().flatten().chain(&pod.containers) {
        assert_eq!(container.image.as_deref(), image["name"].as_str(), "{}", container.name);
        let resources = container.resources.as_ref().expect("each container says what it needs");
        assert!(resources.requests.as_ref().unwrap().contains_key("memory"), "{}", container.name);
    }
    let running = pod.containers.first().unwrap();
    assert!(running.readiness_probe.is_some() && running.liveness_probe.is_some());
    let [name, tag] = ["newName", "newTag"].map(|key| image[key].as_str().unwrap());
    let reference = format!("ostree-unverified-registry:{name}:{tag}");
    assert!(reference.parse::<ImageRef>().is_ok(), "{reference}: pods with an invalid image never start");
    assert_eq!(tag, env!("CARGO_PKG_VERSION"));
}

#[test]
fn pod_of_the_reboot_lock_lends_its_token_and_has_no_privileges() {
    let set: DaemonSet = serde_json::from_value(documents("reboot-lock/daemon-set.yaml").remove(0)).unwrap();
    let pod = set.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!((pod.host_network, pod.host_pid, pod.host_ipc), (None, None, None));
    let [container] = &pod.containers[..] else { panic!("one container") };
    let overlay = &documents("reboot-lock/kustomization.yaml")[0];
    assert_eq!(container.image.as_deref(), overlay["images"][0]["name"].as_str());
    assert_eq!(overlay["images"][0]["newTag"], env!("CARGO_PKG_VERSION"));
    let context = container.security_context.as_ref().unwrap();
    assert_eq!((context.privileged, context.allow_privilege_escalation), (None, Some(false)));
    assert_eq!(context.capabilities.as_ref().unwrap().drop, Some(vec!["ALL".to_owned()]));
    // The page names the file that the pod writes.
    let directory = "/run/flameholder/reboot-lock";
    let command = container.command.as_ref().unwrap();
    assert!(command.contains(&format!("--directory={directory}")), "{command:?}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/usage/reboot-policy.md");
    let setting = format!("token-file = \"{directory}/token\"");
    assert!(fs::read_to_string(page).unwrap().contains(&setting), "{setting}");
}

#[test]
fn only_the_container_that_adopts_has_privileges_and_the_nodes_root() {
    let set: DaemonSet = serde_json::from_value(documents("base/daemon-set.yaml").remove(0)).unwrap();
    let template = set.spec.unwrap().template;
    let annotations = template.metadata.unwrap().annotations.unwrap();
    let pod = template.spec.unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!((pod.host_network, pod.host_pid, pod.host_ipc), (None, None, None));
    let containers: Vec<_> = pod.init_containers.iter().flatten().chain(&pod.containers).collect();
    assert_eq!(containers.len(), 3);
    for container in containers {
        let context = container.security_context.as_ref().unwrap();
        let mounts: BTreeSet<&str> =
            container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()).collect();
        if container.name == "adopt" {
            assert_eq!(context.privileged, Some(true));
            assert_eq!(mounts, BTreeSet::from(["rootfs"]), "it needs no token");
            continue;
        }
        assert_eq!(mounts, BTreeSet::from(["account", "cluster"]), "{}", container.name);
        assert_eq!(context.privileged, None, "{}", container.name);
        assert_eq!(context.allow_privilege_escalation, Some(false), "{}", container.name);
        assert_eq!(context.read_only_root_filesystem, Some(true), "{}", container.name);
        let capabilities = context.capabilities.as_ref().unwrap();
        assert_eq!((&capabilities.add, &capabilities.drop), (&None, &Some(vec!["ALL".to_owned()])));
    }
    // The constraints admit these pods and no wider ones.
    let constraints = constraints(&documents("base/security-context-constraints.yaml")[0]);
    let kinds: BTreeSet<String> = documents("base/daemon-set.yaml")[0]["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| volume.as_object().unwrap().keys().find(|key| *key != "name").unwrap().clone())
        .collect();
    assert_eq!(constraints.volumes, kinds);
    assert_eq!(annotations.get("openshift.io/required-scc").map(String::as_str), Some("flameholder"));
    assert_eq!(constraints.users, ["system:serviceaccount:openshift-machine-config-operator:flameholder"]);
    assert!(constraints.groups.is_empty() && constraints.allowed_capabilities.is_empty());
    let of_the_node = [
        constraints.allow_host_ipc,
        constraints.allow_host_network,
        constraints.allow_host_pid,
        constraints.allow_host_ports,
    ];
    assert_eq!(of_the_node, [false; 4]);
}

/// Stand-in for systemd-run: skip its options and run the command.
const SYSTEMD_RUN: &str =
    "#!/bin/sh\nwhile case $1 in --*) true;; *) false;; esac; do shift; done\nexec \"$@\"\n";

#[test]
fn pod_adopts_its_node() {
    let host = mcd_host();
    let set = documents("base/daemon-set.yaml").remove(0);
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
    let environment = "FLAMEHOLDER_SOURCE=kube\nFLAMEHOLDER_KUBECONFIG=/etc/kubernetes/kubeconfig\n\
                       FLAMEHOLDER_NODE_KUBECONFIG=/var/lib/kubelet/kubeconfig\n\
                       FLAMEHOLDER_TOKEN_FILE=/run/flameholder/cluster/token\nNODE_NAME=edge-7\n";
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
    // The kubelet mounts and replaces a token in the same way.
    let put_token = |token: &str| {
        let directory = account.path().join(format!("..{token}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("token"), token).unwrap();
        symlink(format!("..{token}"), account.path().join("..data_tmp")).unwrap();
        fs::rename(account.path().join("..data_tmp"), account.path().join("..data")).unwrap();
    };
    put_token("one");
    let directory = host.path().join("run/flameholder/cluster");
    symlink("..data/token", account.path().join("token")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_flameholder"))
        .arg("introduce")
        .args([Path::new("--directory"), &directory, Path::new("--account"), account.path()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let token = directory.join("token");
    let mut wait_for_token = |expected: &str| {
        while fs::read_to_string(&token).ok().as_deref() != Some(expected) {
            let line = lines.next().unwrap().unwrap();
            assert!(line.contains("copied the token of this pod to the host"), "{line}");
        }
    };
    wait_for_token("one");
    put_token("two");
    wait_for_token("two");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
