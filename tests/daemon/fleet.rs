//! `flameholder fleet` against a real API server, with the daemon of one node and the Nodes of others.

use std::process::{Command, Stdio};

use osimage::Os;
use serde_json::{Value, json};
use testbed::agent::Agent;
use testbed::booted::config::{full_config, unhealthy_config};
use testbed::booted::host::Host;
use testbed::control_plane::{Cluster, Fault, NODE};
use testbed::model::run::Outcome;
use testbed::output_lines::OutputLines;

use crate::directory::{SOURCE, apply_live_config, live_config, set_desired_config};

/// Run `fleet` on the host, as a workstation of the cluster.
fn fleet(host: &Host, arguments: &[&str]) -> Outcome {
    let all = [&["flameholder", "fleet"], arguments, &["--kubeconfig", "/run/media/kubeconfig"]].concat();
    host.run(all)
}

/// Run `fleet`, which has to succeed.
fn shown(host: &Host, arguments: &[&str]) -> Outcome {
    let outcome = fleet(host, arguments);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

fn document(host: &Host) -> Value {
    serde_json::from_str(&shown(host, &["-o", "json"]).stdout).unwrap()
}

#[test]
fn fleet_shows_pools_nodes_and_slots_and_a_node_reports_what_it_waits_for() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.create_pool("worker");
    cluster.add_role("worker");
    cluster.set_node_ready("edge-8", "False");
    cluster.hold_lease("workers", "edge-8", 3600);
    let policy = "[source]\nnode-name = \"edge-7\"\n[reboot-lock]\nprotocol = \"lease\"\ngroup = \"workers\"\n\
        kubeconfig = \"/run/media/kubelet\"\ntoken-file = \"/run/media/lock-token\"\n";
    host.write_etc("flameholder/config.d/50-policy.toml", policy);
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("AwaitingGrant rendered-two, on rendered-one: ");
    cluster.wait_for_report("AwaitingGrant");
    let text = shown(&host, &[]).stdout;
    let row = text.lines().find(|line| line.starts_with(NODE)).unwrap();
    for part in [
        "worker",
        "AwaitingGrant",
        "rendered-one -> rendered-two",
        "flameholder 0.1.0",
        "a slot of the leases",
    ] {
        assert!(row.contains(part), "{part}: {text}");
    }
    assert!(text.contains("1 of 1 slots are held\n  workers-0: edge-8"), "{text}");
    let document = document(&host);
    let nodes = document["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(
        (&nodes[1]["name"], &nodes[1]["isReady"], &nodes[1]["phase"]),
        (&"edge-8".into(), &false.into(), &Value::Null)
    );
    assert_eq!(
        (&document["pools"][0]["name"], &document["pools"][0]["waiting"]),
        (&"worker".into(), &1.into())
    );
    shown(&host, &["pause", "worker"]);
    assert!(fleet(&host, &["--pool", "worker"]).stdout.contains("paused"));
    assert_eq!(shown(&host, &["resume", "worker"]).stderr, "the pool worker goes on\n");
    let told = shown(&host, &["explain", NODE]).stdout;
    assert!(
        told.contains("edge-7, pool worker, flameholder 0.1.0") && told.contains("in AwaitingGrant"),
        "{told}"
    );
    assert!(told.contains("condition UpdatePrepared is True"), "{told}");
    cluster.create_pool("edge");
    cluster.add_role("edge");
    let told = shown(&host, &["explain", NODE]).stdout;
    assert!(told.contains("edge-7, pool edge, "), "{told}");
    assert!(
        told.contains(
            "\nits labels suit worker too: edge goes before, as a custom pool does before worker\n"
        ),
        "{told}"
    );
    assert!(told.contains("\nthe pool edge names no config: the node keeps the one that it has\n"), "{told}");
}

#[test]
fn blocked_target_is_grouped_and_released_from_afar() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(unhealthy_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    drop(agent);
    host.reboot_into_rollback();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Blocked rendered-two, on rendered-one");
    cluster.wait_for_report("Blocked");
    let document = document(&host);
    let blocked = &document["blocked"][0];
    assert_eq!((&blocked["config"], &blocked["nodes"]), (&"rendered-two".into(), &json!([NODE])));
    let told = shown(&host, &["explain", NODE]).stdout;
    assert!(told.contains("flameholder fleet retry edge-7"), "{told}");
    shown(&host, &["retry", NODE]);
    agent.wait_for_text("an operator asks by the Node to release the blocked target");
    agent.wait_for_line("Draining rendered-two");
    assert_eq!(cluster.node_annotation("flameholder/retry"), None);
}

#[test]
fn node_with_another_source_reports_where_it_is_told_of_its_cluster() {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    host.write_etc(
        "flameholder/config.d/50-site.toml",
        "[source]\nnode-kubeconfig = \"/run/media/kubelet\"\n",
    );
    apply_live_config(&host, "one");
    set_desired_config(&host, live_config("one").json());
    let arguments = [&SOURCE[..], &["--node-name", NODE]].concat();
    let mut agent = Agent::start(&host, &arguments);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_report("Done");
    host.write_etc("nmstate/openshift/app.yml", "changed");
    agent.wait_for_line("Drifted rendered-one");
    cluster.wait_for_report("Drifted");
    let text = shown(&host, &[]).stdout;
    assert!(text.lines().any(|line| line.starts_with(NODE) && line.contains("Drifted")), "{text}");
    // The update does not depend on it.
    cluster.proxy.fail(Fault::Status(403));
    set_desired_config(&host, live_config("two").json());
    agent.wait_for_text("the state is not reported on the Node: the API server denies access");
    drop(agent);
    host.write_etc("flameholder/config.d/50-site.toml", "");
    cluster.proxy.fail(Fault::None);
    cluster.proxy.clear();
    let mut agent = Agent::start(&host, &arguments);
    agent.wait_for_line("BackingOff rendered-two");
    assert!(cluster.proxy.log().requests.is_empty(), "a host that was told of no cluster");
}

#[test]
fn releases_are_told_with_what_follows_them_in_the_update_graph() {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    cluster.set_node_os("Fedora CoreOS 41.20250101.3.0");
    let node = |version: &str, barrier: &str| {
        json!({"version": version, "payload": format!("quay.io/os:{version}"), "metadata": {
            "org.fedoraproject.coreos.updates.barrier": barrier,
            "org.fedoraproject.coreos.updates.barrier_reason": "new boot loader"}})
    };
    let graph = json!({
        "nodes": [node("41.20250101.3.0", "false"), node("42.20250701.3.0", "true")],
        "edges": [[0, 1]]});
    host.write_etc("graph.json", &graph.to_string());
    let told = shown(&host, &["--graph", "/etc/graph.json"]).stdout;
    let expected =
        "\nrelease 41.20250101.3.0 on 1 node: 42.20250701.3.0 follows, a barrier: new boot loader\n";
    assert!(told.ends_with(expected), "{told}");
    // The version of a cluster goes before those of its nodes; an update that is under way does not count yet.
    cluster.set_versions(&[("4.18.0", "Partial"), ("42.20250701.3.0", "Completed")]);
    let told = shown(&host, &["--graph", "/etc/graph.json"]).stdout;
    assert!(told.ends_with("\nrelease 42.20250701.3.0 on 1 node: none follows\n"), "{told}");
    assert_eq!(document(&host)["releases"], json!([]));
    let lost = fleet(&host, &["--graph", "/etc/none.json"]);
    assert_eq!(lost.code, Some(1));
    assert!(lost.stderr.contains("/etc/none.json"), "{lost:?}");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_shown() {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    cluster.proxy.fail(Fault::DeniedLeases);
    let rest = shown(&host, &[]);
    assert!(
        rest.stderr.contains("the slots of reboot locks cannot be read: the API server denies access"),
        "{rest:?}"
    );
    assert!(rest.stdout.contains(NODE), "{rest:?}");
    cluster.proxy.fail(Fault::Status(403));
    for arguments in [&[][..], &["--watch"]] {
        let failed = fleet(&host, arguments);
        assert_eq!(failed.code, Some(1));
        assert!(failed.stderr.contains("error: the API server denies access"), "{failed:?}");
    }
    let lost = host.run(["flameholder", "fleet", "--kubeconfig", "/run/media/none"]);
    assert!(lost.stderr.contains("the kubeconfig /run/media/none cannot be used"), "{lost:?}");
}

#[test]
fn watched_fleet_names_what_cannot_be_read_any_more_and_asks_again_after_a_pause() {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    let command = ["flameholder", "fleet", "--watch", "--kubeconfig", "/run/media/kubeconfig"];
    let mut fleet = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child"])
        .args(host.unshare_arguments(command))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = OutputLines::of(fleet.stdout.take().unwrap());
    let mut warnings = OutputLines::of(fleet.stderr.take().unwrap());
    rows.wait_for("of the node", |line| line.starts_with(NODE));
    cluster.proxy.fail(Fault::Status(500));
    warnings.wait_for("of the Nodes", |line| line.contains("the Nodes cannot be read: "));
    let log = cluster.proxy.log();
    let lists = log.requests.iter().filter(|request| request.target.starts_with("/api/v1/nodes?limit="));
    assert!(lists.count() <= 3, "{:?}", log.lines());
    fleet.kill().unwrap();
    fleet.wait().unwrap();
}
