//! Daemon that follows a pool of a cluster without the machine-config-operator.

use osimage::Os;
use serde_json::json;
use testbed::agent::Agent;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::Host;
use testbed::control_plane::{Cluster, Fault, KUBELET, RequestLog};

use crate::cluster::permissions::{is_of_kubelet, unused_rules};

const ROLES: [&str; 1] = ["deploy/kubernetes/standalone/cluster-role.yaml"];

fn arguments(pool: &str) -> [&str; 8] {
    ["--source", "kube", "--pool", pool, "--kubeconfig", "/run/media/kubelet", "--node-name", "edge-7"]
}

/// Host and cluster with a pool of workers that names `rendered-one`.
fn host_with_pool() -> (Host, Cluster) {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    cluster.create_pool("worker");
    cluster.add_role("worker");
    cluster.render(full_config("one").json());
    cluster.set_pool("worker", &json!({"configuration": {"name": "rendered-one"}}));
    (host, cluster)
}

#[test]
fn node_follows_the_config_of_its_pool_and_reports_on_its_node() {
    let (host, cluster) = host_with_pool();
    let mut agent = Agent::start(&host, &arguments("BY-LABELS"));
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    let mut agent = Agent::start(&host, &arguments("BY-LABELS"));
    agent.wait_for_line("Done rendered-one");
    assert_config(&host, "one", "two");
    cluster.wait_for_report("Done");
    // A paused pool changes nothing, whatever config it names.
    cluster.render(full_config("two").json());
    cluster.set_pool("worker", &json!({"paused": true, "configuration": {"name": "rendered-two"}}));
    let has_seen =
        |log: &RequestLog| log.requests.iter().any(|request| request.target.contains("rendered-two"));
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(status.contains("rendered-one"), "{status}");
    assert!(!has_seen(&cluster.proxy.log()));
    cluster.set_pool("worker", &json!({"paused": false}));
    agent.wait_for_line("ShuttingDown rendered-two, on rendered-one");
    let log = cluster.proxy.log();
    assert!(log.requests.iter().all(|request| request.identity == KUBELET));
    let others = log.requests.iter().filter(|request| !is_of_kubelet(request));
    assert!(unused_rules(others, &ROLES).is_empty());
    let mut unused = full_config("two").json().clone();
    unused["metadata"]["name"] = "rendered-unused".into();
    cluster.render(&unused);
    let pruned = host.run(["flameholder", "render", "--prune", "--kubeconfig", "/run/media/kubeconfig"]);
    assert_eq!((pruned.code, pruned.stdout.as_str()), (Some(0), "rendered-unused\n"), "{pruned:?}");
    let again = host.run(["flameholder", "render", "--prune", "--kubeconfig", "/run/media/kubeconfig"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{again:?}");
}

#[test]
fn pool_that_is_missing_or_names_no_config_is_told_with_the_way_out() {
    let (host, cluster) = host_with_pool();
    let mut agent = Agent::start(&host, &arguments("edge"));
    let waits = agent.wait_for_line("BackingOff");
    assert!(waits.contains("the cluster has no MachineConfigPool edge: create it"), "{waits}");
    cluster.create_pool("edge");
    agent.wait_for_text("the MachineConfigPool edge names no config");
    cluster.set_pool("edge", &json!({"configuration": {"name": "rendered-gone"}}));
    let waits = agent.wait_for_line("BackingOff rendered-gone");
    assert!(waits.contains("the cluster has no machineconfigs"), "{waits}");
    cluster.proxy.fail(Fault::Reset);
    agent.wait_for_text("cannot be reached");
    cluster.proxy.fail(Fault::None);
    cluster.set_pool("edge", &json!({"configuration": {"name": "rendered-one"}}));
    agent.wait_for_line("ShuttingDown rendered-one");
}
