//! Daemon that drains its own Node, without a controller of the cluster.

use std::fs;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::{Value, json};
use testbed::agent::Agent;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::Host;
use testbed::control_plane::{Cluster, Fault};
use testbed::dbus::fake_logind::{Fault as LogindFault, Script};

use crate::cluster::permissions::unused_rules;
use crate::directory::{SOURCE, set_desired_config};

const DRAIN: &str = "[source]\nnode-name = \"edge-7\"\nnode-kubeconfig = \"/run/media/kubelet\"\n[reboot]\nretry-interval = 1\n\
    [drain]\nenabled = true\n";
/// Log line about the uncordoned Node.
const UNCORDONED: &str = "the node edge-7 is uncordoned";
/// Rights of a kubelet, by the cluster role `system:node`, of which the daemon needs these.
const KUBELET_ROLE: &str = "tests/fixtures/cluster/kubelet-drain.yaml";

/// Host that drains its Node, and its cluster. The desired config is `one`, which needs a reboot.
fn host_with_node(more: &str) -> (Host, Cluster) {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    host.write_etc("flameholder/config.d/50-drain.toml", &format!("{DRAIN}{more}"));
    set_desired_config(&host, full_config("one").json());
    (host, cluster)
}

fn owned(kind: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "1", "controller": true});
    json!({"ownerReferences": [owner]})
}

fn create_pods(cluster: &Cluster) {
    let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
    cluster.create_pod("web", &owned("ReplicaSet"), &scratch, "Running");
    cluster.create_pod("agent", &owned("DaemonSet"), &scratch, "Running");
    cluster.create_pod(
        "static",
        &json!({"annotations": {"kubernetes.io/config.mirror": "1"}}),
        &json!([]),
        "Running",
    );
    cluster.create_pod("job", &json!({}), &json!([]), "Succeeded");
}

fn reboot_and_confirm(host: &Host, cluster: &Cluster) {
    assert!(cluster.is_cordoned(), "the node is cordoned over the reboot");
    host.reboot();
    let mut agent = Agent::start(host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    assert_config(host, "one", "two");
}

#[test]
fn node_is_drained_but_for_pods_that_stay_and_uncordoned_after_the_confirmation() {
    let (host, cluster) = host_with_node("");
    create_pods(&cluster);
    cluster.create_pod("bare", &json!({}), &json!([]), "Running");
    cluster.proxy.fail(Fault::Budget);
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("Draining rendered-one: ");
    assert!(waits.contains("shop/bare, which has no controller") && waits.contains("bare-pods"), "{waits}");
    assert!(waits.contains("shop/web: The disruption budget web needs 2 healthy pods and has 2"), "{waits}");
    cluster.delete_pod("bare");
    agent.wait_for_line(
        "Draining rendered-one: the node is not drained for rendered-one yet: it waits for the pods shop/web",
    );
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(status.contains("The disruption budget web"), "{status}");
    agent.signal(Signal::SIGKILL);
    agent.end();
    assert!(cluster.is_cordoned());
    cluster.proxy.fail(Fault::None);
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    assert!(!agent.output().contains(UNCORDONED), "the drain goes on: {}", agent.output());
    assert_eq!(cluster.pod_names(), ["agent", "job", "static"]);
    drop(agent);
    reboot_and_confirm(&host, &cluster);
    assert!(!cluster.is_cordoned());
    assert!(unused_rules(&cluster.proxy.log().requests, &[KUBELET_ROLE]).is_empty());
}

#[test]
fn eviction_that_fails_is_named_and_keeps_no_other_pod() {
    let (host, cluster) = host_with_node("");
    cluster.create_pod("alpha", &owned("ReplicaSet"), &json!([]), "Running");
    // Two budgets of one pod, or an admission webhook that denies its eviction.
    for (code, other) in [(500, "beta"), (403, "gamma")] {
        cluster.create_pod(other, &owned("ReplicaSet"), &json!([]), "Running");
        cluster.proxy.fail(Fault::Eviction("alpha", code));
        let mut agent = Agent::start(&host, &SOURCE);
        let waits = agent.wait_for_line("Draining rendered-one: ");
        assert!(waits.contains("the pods shop/alpha: ") && waits.contains("injected by the test"), "{waits}");
        cluster.wait_for_eviction(other);
    }
    cluster.proxy.fail(Fault::None);
    Agent::start(&host, &SOURCE).wait_for_line("ShuttingDown rendered-one");
}

#[test]
fn node_that_was_cordoned_is_uncordoned_where_the_daemon_drains_no_longer() {
    let (host, cluster) = host_with_node("");
    cluster.create_pod("bare", &json!({}), &json!([]), "Running");
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Draining rendered-one: ");
    drop(agent);
    assert!(cluster.is_cordoned());
    // Without a kubeconfig in the settings, that of the kubelet.
    let kubelet = fs::read(host.path("media/kubelet")).unwrap();
    fs::create_dir_all(host.var("lib/kubelet")).unwrap();
    fs::write(host.var("lib/kubelet/kubeconfig"), kubelet).unwrap();
    host.write_etc("flameholder/config.d/50-drain.toml", "[source]\nnode-name = \"edge-7\"\n");
    cluster.delete_pod("bare");
    cluster.proxy.fail(Fault::Status(500));
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_text("the node edge-7 cannot be uncordoned yet: the API server reports an error: 500");
    agent.wait_for_line("ShuttingDown rendered-one");
    cluster.proxy.fail(Fault::None);
    agent.wait_for_text(UNCORDONED);
    assert!(!cluster.is_cordoned());
}

#[test]
fn node_stays_drained_over_attempts_at_the_same_update_and_not_for_another() {
    let (host, cluster) = host_with_node("");
    let fault = Some(("RebootWithFlags", LogindFault::Denies));
    let mut agent = Agent::start_with_logind(&host, &SOURCE, Script { fault, ..Script::default() });
    for _ in 0..2 {
        agent.wait_for_line("Draining rendered-one");
        agent.wait_for_line("BackingOff rendered-one");
        assert!(cluster.is_cordoned());
        agent.signal(Signal::SIGHUP);
    }
    agent.wait_for_line("BackingOff rendered-one");
    assert!(!agent.output().contains(UNCORDONED), "{}", agent.output());
    set_desired_config(&host, full_config("two").json());
    agent.wait_for_text(UNCORDONED);
    agent.wait_for_line("Draining rendered-two");
}

#[test]
fn uncordon_that_fails_is_named_and_ends_with_the_node() {
    let (host, cluster) = host_with_node("");
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    cluster.proxy.fail(Fault::Status(500));
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("Uncordoning rendered-one: ");
    assert!(waits.contains("not uncordoned yet: the API server reports an error: 500"), "{waits}");
    // The Node is deleted.
    cluster.proxy.fail(Fault::Status(404));
    agent.wait_for_line("Done rendered-one");
}

#[test]
fn node_that_an_operator_cordoned_stays_cordoned() {
    let (host, cluster) = host_with_node("");
    cluster.cordon();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    reboot_and_confirm(&host, &cluster);
    assert!(cluster.is_cordoned());
}

#[test]
fn drain_that_takes_too_long_is_given_up_with_its_slot_and_tried_again() {
    let lock = "timeout = 1\n[reboot-lock]\nprotocol = \"lease\"\nkubeconfig = \"/run/media/kubelet\"\n\
        token-file = \"/run/media/lock-token\"\n";
    let (host, cluster) = host_with_node(lock);
    cluster.create_pod("bare", &json!({}), &json!([]), "Running");
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(waits.contains("another attempt to drain the node") && waits.contains("shop/bare"), "{waits}");
    agent.wait_for_text("the grant of its disruption has ended");
    agent.wait_for_line("Draining rendered-one");
    cluster.delete_pod("bare");
    agent.wait_for_line("ShuttingDown rendered-one");
    assert_eq!(cluster.lease_holder("default").as_deref(), Some("edge-7"));
    drop(agent);
    reboot_and_confirm(&host, &cluster);
}

#[test]
fn api_server_that_is_away_delays_the_drain_and_is_named() {
    let (host, cluster) = host_with_node("");
    cluster.proxy.fail(Fault::Status(403));
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("Draining rendered-one: ");
    assert!(waits.contains("the API server denies access"), "{waits}");
    cluster.proxy.fail(Fault::None);
    agent.wait_for_line("ShuttingDown rendered-one");
}
