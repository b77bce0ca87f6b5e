//! Trust material, applied by a process that is killed at one system call after the other: a registry that keeps its
//! certificates has them at each moment, both kubeconfigs have the same CA after the recovery, the kubelet was restarted
//! with that CA and is never left stopped, and the next attempt succeeds.

use std::fs;

use osimage::Os;
use serde_json::{Value, json};
use testbed::booted::host::{Host, confirmed_host};
use testbed::control_plane::trust::{base64, bundle, kubeconfig};
use testbed::dbus::fake_systemd::{FakeSystemd, Script};
use testbed::dbus::private_bus::PrivateBus;
use testbed::strace::{self, Call};

/// Kills, unless all of them are requested.
const SAMPLE: usize = 12;
const REQUEST: &str = "/run/media/request";
const KUBELET_CA: &str = "kubernetes/kubelet-ca.crt";
const REGISTRIES: &str = "docker/certs.d";

/// Trust material as it is on the disk, in words.
#[derive(Debug, PartialEq, Eq)]
struct OnDisk {
    kubelet_ca: Option<String>,
    registries: [Option<String>; 3],
    kubeconfigs: [Option<String>; 2],
}

impl OnDisk {
    fn of(host: &Host) -> Self {
        let registry = |name: &str| host.read_etc(&format!("{REGISTRIES}/{name}/ca.crt"));
        Self {
            kubelet_ca: host.read_etc(KUBELET_CA),
            registries: ["kept:5000", "gone", "new"].map(registry),
            kubeconfigs: [host.read_etc("kubernetes/kubeconfig"), host.read_var("lib/kubelet/kubeconfig")],
        }
    }
}

/// Write the request for this trust material.
fn put_request(host: &Host, document: &Value) {
    let document = document.to_string();
    let request = json!({"job": {"ApplyTrust": null}, "profile": "mcd", "is_in_cluster": true,
        "document": document.len(), "policy": null});
    fs::write(host.path("media/request"), format!("{request}\n{document}")).unwrap();
}

/// Host with older trust material, and the request for newer.
fn host_with_request() -> Host {
    let host = confirmed_host("one");
    host.write_etc(KUBELET_CA, &bundle(&["kubelet-1"]));
    for (registry, contents) in [("kept:5000", "kept"), ("gone", "gone")] {
        host.write_etc(&format!("{REGISTRIES}/{registry}/ca.crt"), contents);
    }
    host.write_etc("kubernetes/kubeconfig", &kubeconfig(&bundle(&["server-1"])));
    fs::write(host.var("lib/kubelet/kubeconfig"), kubeconfig(&bundle(&["server-1"]))).unwrap();
    let registry = |host: &str, contents: &str| json!({"file": host, "data": base64(contents)});
    put_request(
        &host,
        &json!({
            "fields": {
                "kubeAPIServerServingCAData": base64(&bundle(&["kubelet-2"])),
                "imageRegistryBundleData": [registry("kept..5000", "kept"), registry("new", "new")],
            },
            "server_ca": base64(&bundle(&["server-1", "server-2"])),
        }),
    );
    host
}

/// Host with its systemd.
struct Run {
    host: Host,
    _bus: PrivateBus,
    systemd: FakeSystemd,
}

impl Run {
    fn on(host: Host) -> Self {
        // As systemd's, by which the agent tells a running system from a tree.
        fs::create_dir_all(host.path("run/systemd/system")).unwrap();
        let bus = PrivateBus::on(&host);
        let systemd = FakeSystemd::start(&bus.address, Script::of_success());
        Self { host, _bus: bus, systemd }
    }

    fn shell(&self, command: &str) -> testbed::model::run::Outcome {
        self.host.run(["sh", "-c", command])
    }

    fn apply(&self) {
        let outcome = self.shell(&format!("flameholder work < {REQUEST}"));
        assert!(outcome.stdout.contains("TrustApplied"), "{outcome:?}");
    }

    fn restarts(&self) -> usize {
        self.systemd.restarts("kubelet.service")
    }
}

#[test]
fn applying_trust_material_survives_kills() {
    testbed::preconditions::require_strace();
    let original = host_with_request();
    let old = OnDisk::of(&original);
    let undisturbed = Run::on(original.copy());
    undisturbed.apply();
    let new = OnDisk::of(&undisturbed.host);
    assert_eq!(undisturbed.restarts(), 1);
    let both = Some(kubeconfig(&bundle(&["server-1", "server-2"])));
    assert_eq!(new.kubeconfigs, [both.clone(), both]);
    assert_eq!(new.registries, [Some("kept".to_owned()), None, Some("new".to_owned())]);
    undisturbed.host.assert_no_drift();

    let traced = Run::on(original.copy());
    traced.shell(&format!("strace -f -o /run/media/calls flameholder work < {REQUEST}"));
    let log = fs::read(traced.host.path("media/calls")).unwrap();
    let mut places = strace::parse(&String::from_utf8_lossy(&log));
    places.retain(Call::is_change);
    let step = if testbed::is_exhaustive() { 1 } else { places.len().div_ceil(SAMPLE) };
    let (mut killed, mut tried) = (0, 0);
    for call in places.iter().rev().step_by(step) {
        tried += 1;
        killed += usize::from(is_whole_after_kill(&Run::on(original.copy()), call, &old, &new));
    }
    eprintln!("{killed} kills at {} places", places.len());
    // The number of calls per thread varies between runs.
    assert!(killed * 2 > tried, "{killed} kills of {tried}");
}

/// Kill the process at a call and check the host. Returns true if the process was killed.
fn is_whole_after_kill(run: &Run, call: &Call, old: &OnDisk, new: &OnDisk) -> bool {
    let place = call.kill_injection();
    run.shell(&format!(
        "strace -f -o /run/media/end -e trace={} -e {place} flameholder work < {REQUEST}",
        call.name
    ));
    let end = fs::read(run.host.path("media/end")).unwrap_or_default();
    let is_killed = String::from_utf8_lossy(&end).contains("killed by SIGKILL");
    let seen = OnDisk::of(&run.host);
    assert!([&old.kubelet_ca, &new.kubelet_ca].contains(&&seen.kubelet_ca), "{place}: {seen:?}");
    assert_eq!(seen.registries[0].as_deref(), Some("kept"), "{place}");
    for (found, permitted) in seen.kubeconfigs.iter().zip(old.kubeconfigs.iter().zip(&new.kubeconfigs)) {
        assert!([permitted.0, permitted.1].contains(&found), "{place}: {seen:?}");
    }

    let before = run.restarts();
    let recovered = run.shell("flameholder recover");
    assert_eq!(recovered.code, Some(0), "{place}: {recovered:?}");
    let after = OnDisk::of(&run.host);
    let is_new = after.kubeconfigs == new.kubeconfigs;
    assert!(is_new || after.kubeconfigs == old.kubeconfigs, "{place}: {after:?}");
    // The kubelet runs with the CA that is on the disk: one that was restarted too early is restarted again.
    let restarts = run.restarts();
    let is_current = if is_new { restarts == 1 } else { before == 0 || restarts > before };
    assert!(is_current, "{place}: {before} restarts, then {restarts}, {after:?}");
    run.apply();
    assert_eq!(OnDisk::of(&run.host), *new, "{place}, after the next attempt");
    run.host.assert_no_drift();
    is_killed
}

#[test]
fn trust_material_does_not_depend_on_a_generation() {
    let host = Host::install(Os::new(1));
    host.write_etc("docker/certs.d/gone/ca.crt", "gone");
    put_request(&host, &json!({"fields": {"kubeAPIServerServingCAData": base64(&bundle(&["kubelet-1"]))}}));
    let run = Run::on(host);
    run.apply();
    assert_eq!(run.host.read_etc(KUBELET_CA), Some(bundle(&["kubelet-1"])));
    assert!(!run.host.etc("docker/certs.d/gone").exists());
    assert_eq!(run.restarts(), 0);
}
