//! Updates, rollbacks and drift of a node, with the annotations and conditions that the daemon writes to the
//! cluster.

use std::fs;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::json;
use testbed::agent::Agent;
use testbed::booted::config::{Config, assert_config, full_config, unhealthy_config};
use testbed::booted::host::{Host, assert_unlocked};
use testbed::control_plane::{Answers, Cluster};
use testbed::dbus::fake_logind::Script;

use crate::cluster::{permissions, update_costs};

#[test]
fn staged_update_writes_annotations_and_conditions_in_order() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    // The node was given to another pool than that of its object.
    cluster.create_pool("infra");
    cluster.add_role("infra");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.proxy.clear();
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    assert_eq!(
        cluster.proxy.log().writes(),
        [
            "Updated: False",
            "state=Working",
            "UpdatePrepared: True",
            "UpdateExecuted: Unknown",
            "desiredDrain=drain-rendered-two",
            "UpdateExecuted: True",
            "AppliedFilesAndOS: True",
            "RebootedNode: Unknown",
            "post-config-action=Rebooting",
        ]
    );
    assert_eq!(cluster.controller.drain_requests(), ["uncordon-rendered-one", "drain-rendered-two"]);
    let mut log = cluster.proxy.log();
    cluster.proxy.clear();
    drop(agent);
    host.reboot();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-two");
    cluster.wait_for_write("Updated: True");
    assert_config(&host, "two", "one");
    assert_eq!(
        cluster.proxy.log().writes(),
        [
            "RebootedNode: True",
            "post-config-action=",
            "Resumed: True",
            "desiredDrain=uncordon-rendered-two",
            "currentConfig=rendered-two",
            "state=Done",
            "Updated: True",
        ]
    );
    assert_eq!(cluster.conditions(), ["Updated=True"]);
    cluster.wait_for_event("ConfigDriftMonitorStarted");
    log.requests.extend(cluster.proxy.log().requests);
    update_costs::assert_staged(&log);
    assert_eq!(cluster.annotation("reason").as_deref(), Some(""));
    // Permissions that no update needs: the object is missing, and the CA of the API server rotates.
    cluster.proxy.clear();
    cluster.create_pool("worker");
    cluster.add_role("worker");
    cluster.delete_node_object();
    cluster.create_trust(&json!({}));
    cluster.set_rotation("true");
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-two");
    cluster.wait_for_write("state=Degraded");
    // A failed attempt, during which the policy is watched.
    cluster.set_desired_config("rendered-missing");
    agent.wait_for_line("BackingOff rendered-missing");
    cluster.wait_for_watch("/apis/operator.openshift.io/v1/machineconfigurations");
    // Pinned image sets, with which the pools are watched.
    let image = format!("registry.invalid/a@sha256:{:064}", 1);
    cluster.pin_images("worker", "release", &[&image]);
    cluster.wait_for_watch("/apis/machineconfiguration.openshift.io/v1/machineconfigpools");
    log.requests.extend(cluster.proxy.log().requests);
    permissions::assert_exact(&log.requests);
}

/// Config whose changes need no reboot.
fn live_config(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/nmstate/openshift/app.yml", text)])
}

#[test]
fn live_update_is_applied_without_a_drain() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut two = full_config("one").file_with_mode("/etc/free/a", 0o644, "two").json().clone();
    two["metadata"]["name"] = json!("rendered-two");
    cluster.render(&two);
    cluster.set_policy(&json!({"files": [{"path": "/etc/free", "actions": [{"type": "None"}]}]}));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.proxy.clear();
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("Done rendered-two");
    cluster.wait_for_write("Updated: True");
    assert_eq!(host.read_etc("free/a").as_deref(), Some("two"));
    assert_eq!(
        cluster.proxy.log().writes(),
        [
            "Updated: False",
            "state=Working",
            "UpdatePrepared: True",
            "UpdateExecuted: Unknown",
            "AppliedFilesAndOS: Unknown",
            "UpdateExecuted: True",
            "AppliedFilesAndOS: True",
            "UpdatePostActionComplete: True",
            "Resumed: True",
            "desiredDrain=uncordon-rendered-two",
            "currentConfig=rendered-two",
            "state=Done",
            "Updated: True",
        ]
    );
    cluster.wait_for_event("ConfigDriftMonitorStarted");
    update_costs::assert_live(&cluster.proxy.log());
    let metrics = agent.metrics();
    assert!(metrics.contains("flameholder_updates_total{kind=\"live\",result=\"success\"} 1\n"), "{metrics}");
    assert!(metrics.contains("flameholder_last_update_timestamp_seconds{kind=\"live\",result=\"success\"} "));
}

#[test]
fn irreconcilable_config_is_unreconcilable_until_the_desired_config_changes() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut bad = full_config("bad").json().clone();
    bad["spec"]["config"]["storage"]["links"] = json!([{"path": "/etc/link", "target": "/etc/app/a.conf"}]);
    cluster.render(&bad);
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.proxy.clear();
    cluster.set_desired_config("rendered-bad");
    agent.wait_for_line("BackingOff rendered-bad");
    cluster.wait_for_write("state=Unreconcilable");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("links"), "{reason}");
    cluster.set_desired_config("rendered-one");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("state=Done");
    assert_eq!(cluster.annotation("reason").as_deref(), Some(""));
    let log = cluster.proxy.log();
    assert!(!log.writes().iter().any(|write| write.contains("drain-")), "{:?}", log.writes());
}

#[test]
fn unhealthy_generation_is_rolled_back_and_blocked_and_the_node_is_uncordoned() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(unhealthy_config("two").json());
    cluster.render(live_config("three").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    drop(agent);
    cluster.proxy.clear();
    host.reboot_into_rollback();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Blocked rendered-two, on rendered-one");
    cluster.wait_for_write("desiredDrain=uncordon-rendered-one");
    let log = cluster.proxy.log();
    let writes = log.writes();
    assert!(writes.contains(&"state=Degraded") && writes.contains(&"NodeDegraded: True"), "{writes:?}");
    assert!(!writes.contains(&"state=Done"), "{writes:?}");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("boot check did not pass") && reason.contains("flameholder retry"), "{reason}");
    // Another desired config removes the block, also the one that the host has.
    cluster.set_desired_config("rendered-one");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("state=Done");
    assert!(!agent.metrics().contains("flameholder_blocked{"), "{}", agent.metrics());
    let history = host.run(["flameholder", "history"]);
    assert!(history.stdout.contains("unblocked"), "{history:?}");
}

#[test]
fn target_that_an_operator_rolled_back_from_is_blocked_until_retry() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    drop(agent);
    host.reboot();
    cluster.proxy.clear();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-two");
    cluster.wait_for_write("currentConfig=rendered-two");
    cluster.wait_for_write("Updated: True");
    drop(agent);
    assert_unlocked(&host.run(["flameholder", "rollback"]));
    host.reboot();
    cluster.proxy.clear();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Blocked rendered-two, on rendered-one");
    assert_config(&host, "one", "two");
    cluster.wait_for_write("state=Degraded");
    cluster.wait_for_write("Updated: False");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("rolled back by an operator; `flameholder retry`"), "{reason}");
    let log = cluster.proxy.log();
    let writes: Vec<&str> = log.writes().into_iter().filter(|write| !write.starts_with("reason=")).collect();
    assert_eq!(
        writes,
        ["Updated: False", "NodeDegraded: True", "currentConfig=rendered-one", "state=Degraded"]
    );
    host.run_ok(["flameholder", "retry"]);
    agent.wait_for_line("ShuttingDown rendered-two");
    assert_eq!(agent.reboots(), 1);
}

#[test]
fn older_config_is_applied_when_the_cluster_returns_to_it() {
    let (host, cluster) = Cluster::with_node_on("one");
    for text in ["one", "two"] {
        cluster.render(full_config(text).json());
    }
    for (desired, current) in [("two", "one"), ("one", "two")] {
        let mut agent = cluster.start_agent(&host);
        agent.wait_for_line(&format!("Done rendered-{current}"));
        cluster.proxy.clear();
        cluster.set_desired_config(&format!("rendered-{desired}"));
        agent.wait_for_line(&format!("ShuttingDown rendered-{desired}"));
        drop(agent);
        host.reboot();
        let mut agent = cluster.start_agent(&host);
        agent.wait_for_line(&format!("Done rendered-{desired}"));
        assert_config(&host, desired, current);
        let log = cluster.proxy.log();
        let drains: Vec<&str> =
            log.writes().into_iter().filter(|write| write.starts_with("desiredDrain=")).collect();
        let expected = [format!("drain-rendered-{desired}"), format!("uncordon-rendered-{desired}")];
        assert_eq!(drains, expected.map(|value| format!("desiredDrain={value}")));
    }
}

#[test]
fn drift_and_its_end_are_published() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.proxy.clear();
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-one");
    cluster.wait_for_write("state=Degraded");
    assert!(cluster.annotation("reason").unwrap().contains("/etc/app/a.conf"));
    let metrics = agent.metrics();
    let packages = "mcd_local_unsupported_packages{node=\"edge-7\"} 0";
    assert!(metrics.contains(packages), "{metrics}");
    assert!(metrics.contains("mcd_state{state=\"Degraded\",reason=\"drift\"}"), "{metrics}");
    assert!(!metrics.contains("mcd_config_drift 0.0"), "{metrics}");
    host.write_etc("app/a.conf", "one");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("state=Done");
    let metrics = agent.metrics();
    assert!(metrics.contains("flameholder_phase{phase=\"Done\"} 1"), "{metrics}");
    assert!(
        metrics.contains("mcd_config_drift 0.0") && metrics.contains("mcd_reboots_failed_total 0"),
        "{metrics}"
    );
    assert_eq!(
        cluster.controller.drain_requests(),
        ["uncordon-rendered-one"],
        "drift does not drain the node"
    );
}

#[test]
fn new_desired_config_during_a_drain_is_applied() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("three").json());
    let mut agent = cluster.start_agent_that_drains(&host);
    cluster.set_desired_config("rendered-three");
    agent.wait_for_line("Draining rendered-three");
    cluster.controller.answer(Answers::Twice);
    agent.wait_for_line("ShuttingDown rendered-three");
    drop(agent);
    host.reboot();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-three");
    assert_config(&host, "three", "one");
}

#[test]
fn desired_config_that_is_reset_during_a_drain_uncordons_the_node() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    // As after every earlier update.
    for key in ["desiredDrain", "lastAppliedDrain"] {
        cluster.annotate(key, Some("uncordon-rendered-one"));
    }
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.controller.answer(Answers::Never);
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("Draining rendered-two");
    cluster.wait_for_write("desiredDrain=drain-rendered-two");
    assert!(host.is_staged());
    cluster.cordon();
    cluster.set_desired_config("rendered-one");
    // The request differs from the one that the controller completed before: it would ignore the same.
    cluster.wait_for_write("desiredDrain=uncordon-rendered-one-again");
    cluster.controller.answer(Answers::Promptly);
    agent.wait_for_line("Done rendered-one");
    assert!(!host.is_staged());
    assert_eq!(cluster.annotation("lastAppliedDrain").as_deref(), Some("uncordon-rendered-one-again"));
    assert!(!cluster.is_cordoned());
}

/// Kill the daemon in each phase that it enters and start it again, until it reaches the phase `last` for the
/// second time. Return that daemon, and the number of reboots that all of them requested.
fn kill_in_each_phase(host: &Host, cluster: &Cluster, last: &str) -> (Agent, usize) {
    let (mut killed, mut reboots) = (Vec::new(), 0);
    loop {
        // After the request logind reports the reboot as in progress, to each new daemon too.
        let preparing = (reboots > 0).then_some("reboot");
        let mut agent = cluster.start_agent_with_logind(host, Script { preparing, ..Script::default() });
        if killed.iter().any(|phase| phase == last) {
            agent.wait_for_line(last);
            reboots += agent.reboots();
            return (agent, reboots);
        }
        killed.push(agent.wait_for_phase_not_in(&killed));
        agent.signal(Signal::SIGKILL);
        reboots += agent.reboots();
    }
}

#[test]
fn update_completes_when_the_daemon_is_killed_in_each_phase() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    drop(agent);
    cluster.proxy.clear();
    cluster.set_desired_config("rendered-two");
    let (agent, reboots) = kill_in_each_phase(&host, &cluster, "ShuttingDown");
    assert_eq!(reboots, 1);
    drop(agent);
    let log = cluster.proxy.log();
    assert!(!log.writes().contains(&"state=Done"), "{:?}", log.writes());
    host.reboot();
    let (_agent, reboots) = kill_in_each_phase(&host, &cluster, "Done");
    assert_eq!(reboots, 0);
    cluster.wait_for_write("Updated: True");
    assert_config(&host, "two", "one");
    assert_eq!(
        cluster.controller.drain_requests(),
        ["uncordon-rendered-one", "drain-rendered-two", "uncordon-rendered-two"]
    );
    let log = cluster.proxy.log();
    let done = log.writes().iter().filter(|write| **write == "state=Done").count();
    assert_eq!(done, 1, "{:?}", log.writes());
}

/// States of the generations in the metrics, sorted.
fn generation_states(metrics: &str) -> Vec<&str> {
    let series = metrics.lines().filter(|line| line.starts_with("flameholder_generation_info{"));
    let mut states: Vec<_> =
        series.filter_map(|line| Some(line.split_once("state=\"")?.1.split_once('"')?.0)).collect();
    states.sort_unstable();
    states
}

#[test]
fn desired_image_replaces_the_image_of_the_config() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("one").json());
    let image = host.image(&Os::new(2));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.annotate("desiredImage", Some(&image));
    agent.wait_for_line("ShuttingDown rendered-one");
    let metrics = agent.metrics();
    assert_eq!(generation_states(&metrics), ["booted", "staged"], "{metrics}");
    let fetched =
        metrics.lines().find_map(|line| line.strip_prefix("flameholder_image_fetched_bytes_total "));
    assert!(fetched.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    drop(agent);
    host.reboot();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    let metrics = agent.metrics();
    assert_eq!(generation_states(&metrics), ["booted", "rollback"], "{metrics}");
    cluster.wait_for_write(&format!("currentImage={image}"));
    assert!(host.etc("os/version-2.conf").exists());
    assert_eq!(host.read_etc("machine-config-daemon/currentimage"), Some(image));
    host.assert_no_drift();
}

/// Boot the former generation of the host, and start an agent that finds the newer one blocked.
fn start_on_former_generation(host: &Host, cluster: &Cluster) -> Agent {
    host.shut_down();
    host.boot_entry(1).assert_success();
    cluster.proxy.clear();
    let mut agent = cluster.start_agent(host);
    agent.wait_for_line("Blocked rendered-one: ");
    cluster.wait_for_write("desiredDrain=uncordon-rendered-one");
    agent
}

#[test]
fn layered_image_that_was_rolled_back_is_blocked_until_another_image_is_desired() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("one").json());
    let [second, third] = [2, 3].map(|version| host.image(&Os::new(version)));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.annotate("desiredImage", Some(&second));
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    let mut agent = start_on_former_generation(&host, &cluster);
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("rendered-one is blocked"), "{reason}");
    // The image that the host has.
    cluster.annotate("desiredImage", None);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("state=Done");
    assert!(!agent.metrics().contains("flameholder_blocked{"), "{}", agent.metrics());
    cluster.annotate("desiredImage", Some(&second));
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    // The next image of the same config.
    let mut agent = start_on_former_generation(&host, &cluster);
    cluster.annotate("desiredImage", Some(&third));
    agent.wait_for_line("ShuttingDown rendered-one");
}

#[test]
fn current_config_is_forced_without_its_machineconfig() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-one");
    fs::write(host.path("run/machine-config-daemon-force"), "").unwrap();
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("state=Done");
    assert_config(&host, "one", "two");
}
