//! Trust material of the cluster: CAs, pull secret and the rotation of the API server's CA, beside updates.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use testbed::agent::Agent;
use testbed::booted::host::Host;
use testbed::control_plane::trust::{base64, bundle, kubeconfig};
use testbed::control_plane::{Answers, Cluster};
use testbed::dbus::fake_systemd::{FakeSystemd, Reaction, Script};
use testbed::output_lines::LONGEST_WAIT;

/// Reads of a registry's certificates by another process than the writer.
const READS: usize = 10_000;
const KUBELET: &str = "kubelet.service";
const KUBELET_CA: &str = "kubernetes/kubelet-ca.crt";
const PULL_SECRET: &str = "mco/internal-registry-pull-secret.json";

/// Fields of a ControllerConfig with these certificates of clients and registries.
fn fields(kubelet: &[&str], registries: &[(&str, &str)]) -> Value {
    let registry = |(host, data): &(&str, &str)| json!({"file": host, "data": base64(data)});
    json!({
        "kubeAPIServerServingCAData": base64(&bundle(kubelet)),
        "internalRegistryPullSecret": base64("{\"auths\":{\"a\":{\"auth\":\"very-secret\"}}}"),
        "imageRegistryBundleData": registries.iter().map(registry).collect::<Vec<_>>(),
    })
}

fn registry_ca(host: &Host, registry: &str) -> Option<String> {
    host.read_etc(&format!("docker/certs.d/{registry}/ca.crt"))
}

/// Node on `rendered-one`, whose cluster has this trust material.
fn node_with(fields: &Value) -> (Host, Cluster) {
    let (host, cluster) = Cluster::with_node_on("one");
    fs::create_dir_all(host.etc("docker/certs.d")).unwrap();
    cluster.create_trust(fields);
    (host, cluster)
}

#[test]
fn version_is_annotated_once_the_trust_material_is_applied() {
    let (host, cluster) = node_with(&fields(&["kubelet-1"], &[("kept..5000", "a"), ("changed", "b")]));
    host.write_etc("docker/certs.d/gone:5000/ca.crt", "of an earlier cluster");
    let version = cluster.patch_trust(&json!({}));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_trust(&version);
    assert_eq!(host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-1"])));
    let secret = fs::metadata(host.etc(PULL_SECRET)).unwrap().permissions().mode() & 0o777;
    assert_eq!(secret, 0o600);
    let registries = ["kept:5000", "changed", "gone:5000"].map(|name| registry_ca(&host, name));
    assert_eq!(registries, [Some("a".to_owned()), Some("b".to_owned()), None]);
    assert!(!host.etc("docker/certs.d/gone:5000").exists());

    // Another version of the same trust material is reported, and nothing is written.
    let inode = |path: &str| fs::metadata(host.etc(path)).unwrap().ino();
    let kept = "docker/certs.d/kept:5000/ca.crt";
    let before = [KUBELET_CA, kept].map(inode);
    let version = cluster.patch_trust(&json!({"metadata": {"labels": {"a": "b"}}}));
    cluster.wait_for_trust(&version);
    assert_eq!([KUBELET_CA, kept].map(inode), before);

    // The difference is applied: a file that is still wanted is not touched.
    let next = fields(&["kubelet-1", "kubelet-2"], &[("kept..5000", "a"), ("new", "c")]);
    let version = cluster.patch_trust(&json!({"spec": next}));
    cluster.wait_for_trust(&version);
    assert_eq!(host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-1", "kubelet-2"])));
    let registries = ["kept:5000", "changed", "new"].map(|name| registry_ca(&host, name));
    assert_eq!(registries, [Some("a".to_owned()), None, Some("c".to_owned())]);
    assert_eq!(inode(kept), before[1]);

    // What another program removes comes back.
    fs::remove_file(host.etc(KUBELET_CA)).unwrap();
    let removed = Instant::now();
    while host.read_etc(KUBELET_CA).is_none() {
        assert!(removed.elapsed() < LONGEST_WAIT, "{}", agent.output());
        agent.wait_for_line("");
    }
    assert_eq!(cluster.annotation("state").as_deref(), Some("Done"));
    assert!(!agent.output().contains("very-secret") && !cluster.published().contains("very-secret"));
    drop(agent);
    host.assert_no_drift();
}

#[test]
fn trust_material_waits_neither_for_a_drain_nor_for_a_boot() {
    let (host, cluster) = node_with(&fields(&["kubelet-1"], &[]));
    let mut agent = cluster.start_agent_that_drains(&host);
    let version = cluster.patch_trust(&json!({"spec": fields(&["kubelet-2"], &[])}));
    cluster.wait_for_trust(&version);
    assert_eq!(host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-2"])));
    assert_eq!(cluster.annotation("state").as_deref(), Some("Working"));
    cluster.controller.answer(Answers::Promptly);
    agent.wait_for_line("ShuttingDown rendered-two");
    drop(agent);
    host.reboot();
    assert_eq!(host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-2"])), "the new deployment has it too");
}

#[test]
fn unusable_trust_material_degrades_the_node_and_replaces_nothing() {
    let (host, cluster) = node_with(&fields(&["kubelet-1"], &[]));
    let mut agent = cluster.start_agent(&host);
    let version = cluster.patch_trust(&json!({}));
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_trust(&version);
    let unusable = json!({"spec": {"kubeAPIServerServingCAData": base64("very-secret")}});
    cluster.patch_trust(&unusable);
    cluster.wait_for_write("state=Degraded");
    let reason = cluster.annotation("reason").unwrap();
    assert!(
        reason.contains("ControllerConfig: spec.kubeAPIServerServingCAData: has no certificate"),
        "{reason}"
    );
    assert_eq!(host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-1"])));
    let status = host.run_ok(["flameholder", "status"]);
    assert!(status.contains("trust material of the cluster is not applied: "), "{status}");
    assert!(![&reason, &status, &agent.output()].iter().any(|text| text.contains("very-secret")));
    assert_eq!(cluster.annotation("lastSyncedControllerConfigResourceVersion"), Some(version));
    cluster.proxy.clear();
    let version = cluster.patch_trust(&json!({"spec": fields(&["kubelet-2"], &[])}));
    cluster.wait_for_trust(&version);
    cluster.wait_for_write("state=Done");
    assert_eq!(host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-2"])));
}

/// Host whose kubeconfigs have the CA `server-1`, its cluster, the daemon, and the systemd that it calls.
fn rotating_node() -> (Host, Cluster, Agent, FakeSystemd) {
    let (host, cluster) = node_with(&fields(&["kubelet-1"], &[]));
    let text = kubeconfig(&bundle(&["server-1"]));
    host.write_etc("kubernetes/kubeconfig", &text);
    fs::write(host.var("lib/kubelet/kubeconfig"), text).unwrap();
    let mut agent = cluster.start_agent(&host);
    let systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("Done rendered-one");
    (host, cluster, agent, systemd)
}

fn kubeconfigs(host: &Host) -> [Option<String>; 2] {
    [host.read_etc("kubernetes/kubeconfig"), host.read_var("lib/kubelet/kubeconfig")]
}

#[test]
fn rotation_restarts_the_kubelet_before_it_is_reported() {
    let (host, cluster, mut agent, systemd) = rotating_node();
    // The operator asks before the new CA is there: the other trust material does not wait for it.
    let version = cluster.set_rotation("true");
    cluster.patch_trust(&json!({"spec": fields(&["kubelet-2"], &[])}));
    agent.wait_for_line("applied trust material: /etc/kubernetes/kubelet-ca.crt");
    assert_ne!(cluster.annotation("lastSyncedControllerConfigResourceVersion"), Some(version));
    let both = bundle(&["server-1", "server-2"]);
    // The operator has created the ConfigMap and not filled it yet.
    cluster.set_server_ca("");
    cluster.patch_trust(&json!({"metadata": {"labels": {"a": "b"}}}));
    agent.wait_for_line(
        "warning: CAs and pull secret of the cluster cannot be read: the cluster has no certificates",
    );
    assert_eq!(cluster.annotation("lastObservedServerCAAnnotation"), None);
    cluster.set_server_ca(&both);
    cluster.wait_for_write("lastObservedServerCAAnnotation=true");
    assert_eq!(kubeconfigs(&host), [Some(kubeconfig(&both)), Some(kubeconfig(&both))]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&host.etc("kubernetes/kubeconfig")), 0o600);
    assert_eq!(mode(&host.var("lib/kubelet/kubeconfig")), 0o600);
    assert_eq!(systemd.restarts(KUBELET), 1);
    // The operator ends the rotation once all nodes have reported it.
    cluster.set_rotation("false");
    cluster.wait_for_write("lastObservedServerCAAnnotation=false");
    assert_eq!(systemd.restarts(KUBELET), 1);
    assert!(!agent.output().contains("very-secret"));
}

#[test]
fn rotation_of_a_deferred_signer_restarts_the_kubelet_later() {
    let (host, cluster, agent, systemd) = rotating_node();
    let with_lb = bundle(&["server-1", "lb"]);
    cluster.set_server_ca(&with_lb);
    cluster.set_rotation("true");
    cluster.wait_for_write("lastObservedServerCAAnnotation=true");
    assert_eq!(kubeconfigs(&host), [Some(kubeconfig(&with_lb)), Some(kubeconfig(&with_lb))]);
    assert_eq!(systemd.restarts(KUBELET), 0);
    drop((agent, systemd));
    // As if 12 hours had passed.
    let record = host.path("run/flameholder/kubelet-restart.json");
    fs::write(&record, "{\"due\":0}").unwrap();
    let mut agent = cluster.start_agent(&host);
    let systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("restarted the kubelet");
    assert_eq!(systemd.restarts(KUBELET), 1);
    assert!(!record.exists());
}

#[test]
fn kubelet_that_does_not_start_gets_the_old_ca_back() {
    let (host, cluster, mut agent, systemd) = rotating_node();
    drop(systemd);
    let refused = Reaction::Refuse("org.freedesktop.systemd1.UnitMasked", "masked");
    let _systemd = agent.start_systemd(Script { job: vec![refused], ..Script::default() });
    let before = kubeconfigs(&host);
    cluster.set_server_ca(&bundle(&["server-1", "server-2"]));
    cluster.set_rotation("true");
    cluster.wait_for_write("state=Degraded");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("restarting kubelet.service: unit is masked"), "{reason}");
    assert_eq!(kubeconfigs(&host), before);
    assert_eq!(cluster.annotation("lastObservedServerCAAnnotation"), None);
    agent.wait_for_line("warning: trust material of the cluster is not applied");
}

#[test]
fn registry_ca_that_is_still_wanted_is_there_at_each_moment() {
    let registries = |data: &str| fields(&["kubelet-1"], &[("registry..5000", data), ("other", data)]);
    let (host, cluster) = node_with(&registries("old"));
    let version = cluster.patch_trust(&json!({}));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_trust(&version);
    let path = host.etc("docker/certs.d/registry:5000/ca.crt");
    let mut seen = [0_usize; 2];
    let read = |seen: &mut [usize; 2]| match fs::read_to_string(&path).unwrap().as_str() {
        "old" => seen[0] += 1,
        "new" => seen[1] += 1,
        other => panic!("{other}"),
    };
    for data in ["new", "old"].into_iter().cycle() {
        cluster.proxy.clear();
        let version = cluster.patch_trust(&json!({"spec": registries(data)}));
        let reported = format!("lastSyncedControllerConfigResourceVersion={version}");
        while !cluster.proxy.log().writes().contains(&reported.as_str()) {
            for _ in 0..100 {
                read(&mut seen);
            }
        }
        if seen.iter().sum::<usize>() >= READS && seen.iter().all(|count| *count > 0) {
            break;
        }
    }
    eprintln!("{} reads of the old certificates, {} of the new", seen[0], seen[1]);
}
