//! Daemon under a lock whose slots are Leases of a cluster.

use std::fs;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::{Value, json};
use testbed::agent::Agent;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::Host;
use testbed::control_plane::{Answers, Cluster, Fault, LOCK_TOKEN, NODE};

use crate::admission::evaluate;
use crate::cluster::permissions::unused_rules;
use crate::deployment::documents;
use crate::directory::{SOURCE, set_desired_config};

const GRANT: &str = "lib/flameholder/reboot-grant";
const GROUP: &str = "workers";
const POLICY: &str = "[source]\nnode-name = \"edge-7\"\n[reboot]\nretry-interval = 1\n[reboot-lock]\nprotocol = \"lease\"\n\
    group = \"workers\"\nkubeconfig = \"/run/media/kubelet\"\ntoken-file = \"/run/media/lock-token\"\n";
const ROLES: [&str; 2] =
    ["deploy/kubernetes/reboot-lock/role.yaml", "deploy/kubernetes/reboot-lock/cluster-role.yaml"];

/// Host with a lock of one slot, and its cluster. The desired config is `one`, which needs a reboot.
fn host_with_leases() -> (Host, Cluster) {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.introduce(&host);
    host.write_etc("flameholder/config.d/50-policy.toml", POLICY);
    set_desired_config(&host, full_config("one").json());
    (host, cluster)
}

fn reboot_and_confirm(host: &Host, cluster: &Cluster) {
    assert_eq!(cluster.lease_holder(GROUP).as_deref(), Some(NODE), "the slot is held over the reboot");
    host.reboot();
    let mut agent = Agent::start(host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    agent.wait_for_text("the grant of its disruption has ended");
    assert_eq!(cluster.lease_holder(GROUP), None);
    assert!(!host.var(GRANT).exists());
    assert_config(host, "one", "two");
}

#[test]
fn slot_of_a_host_that_is_down_is_awaited_and_that_of_a_ready_one_taken_over_after_its_expiry() {
    let (host, cluster) = host_with_leases();
    cluster.set_node_ready("edge-8", "Unknown");
    cluster.hold_lease(GROUP, "edge-8", 15);
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(
        waits.contains("its only slot is held by edge-8") && waits.contains("(group workers)"),
        "{waits}"
    );
    let asked = |log: &testbed::control_plane::RequestLog| {
        log.requests.iter().filter(|request| request.target.ends_with("/nodes/edge-8")).count() >= 2
    };
    let patience = std::time::Duration::from_secs(60);
    assert!(cluster.proxy.wait(patience, asked).is_some(), "the Lease expires, and its holder is looked at");
    assert_eq!(cluster.lease_holder(GROUP).as_deref(), Some("edge-8"));
    cluster.set_node_ready("edge-8", "True");
    agent.wait_for_text("taking over the lease workers-0");
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    reboot_and_confirm(&host, &cluster);
    assert_eq!(unused_rules(&cluster.proxy.log().requests, &ROLES), ["create leases"]);
}

#[test]
fn missing_lease_is_created_and_lost_answers_are_repeated() {
    let (host, cluster) = host_with_leases();
    cluster.proxy.fail(Fault::Truncated);
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("AwaitingGrant rendered-one: ");
    agent.signal(Signal::SIGKILL);
    agent.end();
    let grant: Value = serde_json::from_slice(&fs::read(host.var(GRANT)).unwrap()).unwrap();
    assert_eq!((&grant["slot"]["id"], &grant["slot"]["granted"]), (&NODE.into(), &false.into()));
    assert_eq!(grant["slot"]["namespace"], "flameholder");
    cluster.proxy.fail(Fault::Status(403));
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_text("the API server denies access");
    cluster.proxy.fail(Fault::None);
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(status.contains("holds a slot for rendered-one"), "{status}");
    reboot_and_confirm(&host, &cluster);
    assert_eq!(unused_rules(&cluster.proxy.log().requests, &ROLES), ["get nodes"]);
}

#[test]
fn slot_that_is_lost_during_the_drain_stops_the_disruption() {
    let (host, cluster) = Cluster::with_node_on("one");

    host.write_etc("flameholder/config.d/50-policy.toml", POLICY);
    let mut agent = cluster.start_agent_that_drains(&host);
    assert_eq!(cluster.lease_holder(GROUP).as_deref(), Some(NODE));
    cluster.hold_lease(GROUP, "edge-8", 3600);
    cluster.controller.answer(Answers::Promptly);
    let stopped = agent.wait_for_line("BackingOff rendered-two");
    assert!(stopped.contains("not disrupted further without its slot"), "{stopped}");
    assert!(stopped.contains("held by edge-8"), "{stopped}");
    assert!(!agent.phases().contains(&"Rebooting"), "{:?}", agent.phases());
    cluster.release_lease(GROUP);
    agent.wait_for_line("ShuttingDown rendered-two");
    assert_eq!(cluster.lease_holder(GROUP).as_deref(), Some(NODE));
}

#[test]
fn kubelets_identity_takes_no_slot_and_the_setting_is_named() {
    let (host, cluster) = host_with_leases();
    host.write_etc(
        "flameholder/config.d/50-policy.toml",
        &POLICY.replace(&format!("token-file = \"{LOCK_TOKEN}\"\n"), ""),
    );
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(waits.contains("set `token-file` in [reboot-lock]"), "{waits}");
    assert_eq!(cluster.lease_holder(GROUP), None);
}

#[test]
fn nodes_hold_and_release_slots_of_their_own_only() {
    let policy = &documents("reboot-lock/admission-policy.yaml")[0]["spec"];
    assert_eq!(policy["failurePolicy"], "Fail");
    let admits = |user: &Value, operation: &str, old: Option<&str>, new: Option<&str>| {
        let lease = |holder: Option<&str>| {
            holder.map_or(json!({"spec": {}}), |holder| json!({"spec": {"holderIdentity": holder}}))
        };
        let request = json!({"userInfo": user, "operation": operation});
        let variables = [("request", &request), ("object", &lease(new)), ("oldObject", &lease(old))];
        let condition = &policy["matchConditions"][0]["expression"];
        if evaluate(condition, &variables) == Ok(false) {
            return true;
        }
        evaluate(&policy["validations"][0]["expression"], &variables) == Ok(true)
    };
    let account = "system:serviceaccount:flameholder:flameholder";
    let node = json!({"username": account, "extra": {"authentication.kubernetes.io/node-name": ["edge-7"]}});
    for (operation, old, new, is_admitted) in [
        ("CREATE", None, Some("edge-7"), true),
        ("CREATE", None, Some("edge-8"), false),
        ("UPDATE", None, Some("edge-7"), true),
        ("UPDATE", Some("edge-8"), Some("edge-7"), true),
        ("UPDATE", Some("edge-7"), Some("edge-8"), false),
        ("UPDATE", Some("edge-7"), None, true),
        ("UPDATE", Some("edge-8"), None, false),
        ("UPDATE", Some("edge-8"), Some(""), false),
        ("UPDATE", Some("edge-77"), None, false),
    ] {
        assert_eq!(admits(&node, operation, old, new), is_admitted, "{operation} {old:?} {new:?}");
    }
    let unbound = json!({"username": account});
    assert!(!admits(&unbound, "CREATE", None, Some("edge-7")), "a token that is bound to no node");
    let person = json!({"username": "kubernetes-admin"});
    assert!(admits(&person, "UPDATE", Some("edge-8"), None), "people are not restricted");
}
