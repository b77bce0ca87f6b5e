//! A node's whole history, as the cluster sees it.

use std::fs;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::json;

use crate::cluster::permissions;
use testbed::{
    agent::Agent,
    booted::{
        config::{Config, ensure_is, sick, whole},
        host::{Host, ensure_asked},
    },
    control_plane::{Answers, Cluster},
    dbus::fake_logind::Script,
};

/// So many requests may an update with a reboot cost the API server.
const MOST_REQUESTS: usize = 25;

#[test]
fn an_update_with_a_reboot_is_told_as_controllers_expect_it() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    cluster.proxy.forget();
    cluster.want("rendered-two");
    agent.says("ShuttingDown rendered-two");
    assert_eq!(
        cluster.proxy.record().told(),
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
    assert_eq!(cluster.controller.asked(), ["uncordon-rendered-one", "drain-rendered-two"]);
    let mut asked = cluster.proxy.record().asked;
    cluster.proxy.forget();
    drop(agent);
    host.reboot();
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-two");
    cluster.is_told("Updated: True");
    ensure_is(&host, "two", "one");
    assert_eq!(
        cluster.proxy.record().told(),
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
    asked.extend(cluster.proxy.record().asked);
    let requests: Vec<String> =
        asked.iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect();
    assert!(requests.len() <= MOST_REQUESTS, "{requests:#?}");
    permissions::ensure_exact(&asked);
    assert_eq!(cluster.annotation("reason").as_deref(), Some(""));
}

/// A config whose changes need no reboot, but have a service take them up.
fn light(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/nmstate/openshift/app.yml", text)])
}

#[test]
fn what_needs_no_reboot_needs_no_drain() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut two = whole("one").file_with_mode("/etc/free/a", 0o644, "two").json().clone();
    two["metadata"]["name"] = json!("rendered-two");
    cluster.render(&two);
    cluster.set_policy(&json!({"files": [{"path": "/etc/free", "actions": [{"type": "None"}]}]}));
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    cluster.proxy.forget();
    cluster.want("rendered-two");
    agent.says("Done rendered-two");
    cluster.is_told("Updated: True");
    assert_eq!(host.read_etc("free/a").as_deref(), Some("two"));
    assert_eq!(
        cluster.proxy.record().told(),
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
}

#[test]
fn what_cannot_be_applied_is_unreconcilable_until_something_else_is_wanted() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut bad = whole("bad").json().clone();
    bad["spec"]["config"]["storage"]["links"] = json!([{"path": "/etc/link", "target": "/etc/app/a.conf"}]);
    cluster.render(&bad);
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.proxy.forget();
    cluster.want("rendered-bad");
    agent.says("BackingOff rendered-bad");
    cluster.is_told("state=Unreconcilable");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("links"), "{reason}");
    cluster.want("rendered-one");
    agent.says("Done rendered-one");
    cluster.is_told("state=Done");
    assert_eq!(cluster.annotation("reason").as_deref(), Some(""));
    let record = cluster.proxy.record();
    assert!(!record.told().iter().any(|told| told.contains("drain-")), "{:?}", record.told());
}

#[test]
fn what_is_not_healthy_is_left_and_held_and_the_node_given_back() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(sick("two").json());
    cluster.render(light("three").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.want("rendered-two");
    agent.says("ShuttingDown rendered-two");
    drop(agent);
    host.shut_down();
    host.start(0);
    // The time that it has is over at once.
    fs::write(host.path("run/flameholder/config.d/test.toml"), "[boot-check]\nsteady = 0\ntimeout = 1\n")
        .unwrap();
    host.must(["flameholder", "activate"]);
    let left = host.run(["flameholder", "confirm-boot"]);
    assert!(left.stderr.contains("is left, and held"), "{left:?}");
    cluster.proxy.forget();
    host.power_cut();
    host.boot();
    let mut agent = cluster.agent(&host);
    agent.says("Blocked rendered-two, on rendered-one");
    cluster.is_told("desiredDrain=uncordon-rendered-one");
    let record = cluster.proxy.record();
    let told = record.told();
    assert!(told.contains(&"state=Degraded") && told.contains(&"NodeDegraded: True"), "{told:?}");
    assert!(!told.contains(&"state=Done"), "{told:?}");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("not healthy") && reason.contains("flameholder retry"), "{reason}");
    // Another configuration releases it.
    cluster.want("rendered-one");
    agent.says("Done rendered-one");
    cluster.is_told("state=Done");
}

#[test]
fn what_somebody_goes_back_from_by_hand_is_held_until_it_is_to_be_tried_again() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.want("rendered-two");
    agent.says("ShuttingDown rendered-two");
    drop(agent);
    host.reboot();
    cluster.proxy.forget();
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-two");
    cluster.is_told("currentConfig=rendered-two");
    cluster.is_told("Updated: True");
    drop(agent);
    ensure_asked(&host.run(["flameholder", "rollback"]));
    host.reboot();
    cluster.proxy.forget();
    let mut agent = cluster.agent(&host);
    agent.says("Blocked rendered-two, on rendered-one");
    ensure_is(&host, "one", "two");
    cluster.is_told("state=Degraded");
    cluster.is_told("Updated: False");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("it was rolled back by hand; `flameholder retry`"), "{reason}");
    let told = cluster.proxy.record();
    let told: Vec<&str> = told.told().into_iter().filter(|told| !told.starts_with("reason=")).collect();
    assert_eq!(
        told,
        ["Updated: False", "NodeDegraded: True", "currentConfig=rendered-one", "state=Degraded"]
    );
    host.must(["flameholder", "retry"]);
    agent.says("ShuttingDown rendered-two");
    assert_eq!(agent.reboots(), 1);
}

#[test]
fn a_cluster_that_goes_back_is_followed() {
    let (host, cluster) = Cluster::with_node_on("one");
    for text in ["one", "two"] {
        cluster.render(whole(text).json());
    }
    for (wanted, left) in [("two", "one"), ("one", "two")] {
        let mut agent = cluster.agent(&host);
        agent.says(&format!("Done rendered-{left}"));
        cluster.proxy.forget();
        cluster.want(&format!("rendered-{wanted}"));
        agent.says(&format!("ShuttingDown rendered-{wanted}"));
        drop(agent);
        host.reboot();
        let mut agent = cluster.agent(&host);
        agent.says(&format!("Done rendered-{wanted}"));
        ensure_is(&host, wanted, left);
        let drains = cluster.proxy.record();
        let drains: Vec<&str> =
            drains.told().into_iter().filter(|told| told.starts_with("desiredDrain=")).collect();
        let expected = [format!("drain-rendered-{wanted}"), format!("uncordon-rendered-{wanted}")];
        assert_eq!(drains, expected.map(|value| format!("desiredDrain={value}")));
    }
}

#[test]
fn drift_is_told_and_its_end_too() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    cluster.proxy.forget();
    host.write_etc("app/a.conf", "changed");
    agent.says("Drifted rendered-one");
    cluster.is_told("state=Degraded");
    assert!(cluster.annotation("reason").unwrap().contains("/etc/app/a.conf"));
    let metrics = agent.metrics();
    let packages = "mcd_local_unsupported_packages{node=\"edge-7\"} 0";
    assert!(metrics.contains(packages), "{metrics}");
    assert!(metrics.contains("mcd_state{state=\"Degraded\",reason=\"drift\"}"), "{metrics}");
    assert!(!metrics.contains("mcd_config_drift 0.0"), "{metrics}");
    host.write_etc("app/a.conf", "one");
    agent.says("Done rendered-one");
    cluster.is_told("state=Done");
    let metrics = agent.metrics();
    assert!(metrics.contains("flameholder_phase{phase=\"Done\"} 1"), "{metrics}");
    assert!(
        metrics.contains("mcd_config_drift 0.0") && metrics.contains("mcd_reboots_failed_total 0"),
        "{metrics}"
    );
    assert_eq!(cluster.controller.asked(), ["uncordon-rendered-one"], "nothing was asked of the workload");
}

#[test]
fn another_wish_while_the_workload_leaves_is_followed() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    cluster.render(whole("three").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.controller.answer(Answers::Never);
    cluster.want("rendered-two");
    agent.says("Draining rendered-two");
    cluster.want("rendered-three");
    agent.says("Draining rendered-three");
    cluster.controller.answer(Answers::Twice);
    agent.says("ShuttingDown rendered-three");
    drop(agent);
    host.reboot();
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-three");
    ensure_is(&host, "three", "one");
}

#[test]
fn a_wish_that_is_taken_back_while_the_workload_leaves_brings_it_back() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.controller.answer(Answers::Never);
    cluster.want("rendered-two");
    agent.says("Draining rendered-two");
    assert!(host.is_staged());
    cluster.want("rendered-one");
    cluster.controller.answer(Answers::Promptly);
    agent.says("Done rendered-one");
    assert!(!host.is_staged());
    assert_eq!(cluster.annotation("lastAppliedDrain").as_deref(), Some("uncordon-rendered-one"));
}

/// Has the daemon killed at each phase that it enters, and started again, until it reaches the last one for the second
/// time; the one that does, and how many reboots were asked for.
fn killed_everywhere(host: &Host, cluster: &Cluster, last: &str) -> (Agent, usize) {
    let (mut killed, mut reboots) = (Vec::new(), 0);
    loop {
        // Whoever was asked for a reboot says that it is coming.
        let preparing = (reboots > 0).then_some("reboot");
        let mut agent = cluster.agent_where(host, Script { preparing, ..Script::default() });
        if killed.iter().any(|phase| phase == last) {
            agent.says(last);
            reboots += agent.reboots();
            return (agent, reboots);
        }
        killed.push(agent.enters_other_than(&killed));
        agent.signal(Signal::SIGKILL);
        reboots += agent.reboots();
    }
}

#[test]
fn killed_at_each_phase_it_comes_to_the_same_end() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    drop(agent);
    cluster.proxy.forget();
    cluster.want("rendered-two");
    let (agent, reboots) = killed_everywhere(&host, &cluster, "ShuttingDown");
    assert_eq!(reboots, 1);
    drop(agent);
    let record = cluster.proxy.record();
    assert!(!record.told().contains(&"state=Done"), "{:?}", record.told());
    host.reboot();
    let (_agent, reboots) = killed_everywhere(&host, &cluster, "Done");
    assert_eq!(reboots, 0);
    cluster.is_told("Updated: True");
    ensure_is(&host, "two", "one");
    assert_eq!(
        cluster.controller.asked(),
        ["uncordon-rendered-one", "drain-rendered-two", "uncordon-rendered-two"]
    );
    let record = cluster.proxy.record();
    let done = record.told().iter().filter(|told| **told == "state=Done").count();
    assert_eq!(done, 1, "{:?}", record.told());
}

#[test]
fn an_image_that_was_built_in_the_cluster_stands_in_for_the_configurations_own() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("one").json());
    let image = host.image(&Os::new(2));
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.annotate("desiredImage", Some(&image));
    agent.says("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told(&format!("currentImage={image}"));
    assert!(host.etc("os/version-2.conf").exists());
    assert_eq!(host.read_etc("machine-config-daemon/currentimage"), Some(image));
    host.ensure_whole();
}

#[test]
fn what_runs_is_forced_anew_though_the_cluster_has_forgotten_it() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    host.write_etc("app/a.conf", "changed");
    agent.says("Drifted rendered-one");
    fs::write(host.path("run/machine-config-daemon-force"), "").unwrap();
    agent.says("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("state=Done");
    ensure_is(&host, "one", "two");
}
