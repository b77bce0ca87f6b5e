//! MachineConfigNode of the node: created where it is missing, its conditions as the node controller reads them.

use std::time::{Duration, Instant};

use osimage::Os;
use serde_json::{Value, json};
use testbed::booted::config::full_config;
use testbed::booted::host::Host;
use testbed::control_plane::{Answers, Cluster, NODE, RequestLog};
use testbed::output_lines::LONGEST_WAIT;

/// Beginning of the log line about conditions that are not written.
const UNWRITTEN: &str = "warning: not writing conditions of the MachineConfigNode";

#[test]
fn missing_object_is_created_with_the_pool_of_the_nodes_labels() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.delete_node_object();
    for role in ["worker", "infra", "gpu"] {
        cluster.create_pool(role);
    }
    for role in ["worker", "infra"] {
        cluster.add_role(role);
    }
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    let object = cluster.node_object();
    let expected = json!({"node": {"name": NODE}, "pool": {"name": "infra"}, "configVersion": {"desired": "rendered-one"}});
    assert_eq!(object["spec"], expected);
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!([&owner["kind"], &owner["name"]], ["Node", NODE]);
    assert_eq!(cluster.conditions(), ["Updated=True"]);
    let versions = json!({"current": "rendered-one", "desired": "rendered-one"});
    assert_eq!(object["status"]["configVersion"], versions);
}

#[test]
fn object_follows_the_node_to_another_pool_with_the_next_update() {
    let (host, cluster) = Cluster::with_node_on("one");
    for role in ["worker", "infra"] {
        cluster.create_pool(role);
        cluster.add_role(role);
    }
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    assert_eq!(cluster.node_object()["spec"]["pool"]["name"], "infra");
}

#[test]
fn annotations_of_a_restored_backup_are_written_again() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.proxy.clear();
    cluster.controller.answer(Answers::Never);
    let backup =
        [("state", "Working"), ("currentConfig", "rendered-zero"), ("desiredDrain", "drain-rendered-one")];
    for (key, value) in backup {
        cluster.annotate(key, Some(value));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_written = |log: &RequestLog| log.writes().contains(&"state=Done");
    while cluster.proxy.wait(Duration::from_millis(500), is_written).is_none() {
        assert!(Instant::now() < deadline, "{}", agent.output());
        // The kubelet changes the Node now and then.
        cluster.annotate("heartbeat", Some(&format!("{deadline:?} {:?}", Instant::now())));
    }
    assert_eq!(
        cluster.proxy.log().writes(),
        ["currentConfig=rendered-one", "desiredDrain=uncordon-rendered-one-again", "state=Done"]
    );
    // The drain controller of the cluster sets its conditions, under which no node is updated, and answers then.
    let mut conditions = cluster.node_object()["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().unwrap() {
        let status = if condition["type"] == "UpdateComplete" { "True" } else { "False" };
        condition["status"] = status.into();
    }
    cluster.patch_node_status(&json!({"conditions": conditions}));
    assert_eq!(cluster.conditions(), ["UpdateComplete=True"]);
    cluster.proxy.clear();
    cluster.controller.answer(Answers::Promptly);
    let is_applied = |log: &RequestLog| {
        log.lines().iter().any(|line| line.starts_with("PATCH") && line.contains("/machineconfignodes/"))
    };
    assert!(cluster.proxy.wait(LONGEST_WAIT, is_applied).is_some(), "{}", cluster.published());
    assert_eq!(cluster.conditions(), ["Updated=True"]);
}

#[test]
fn object_that_is_deleted_later_is_created_again() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.create_pool("worker");
    cluster.add_role("worker");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.delete_node_object();
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-one");
    // The annotation follows the conditions.
    cluster.wait_for_write("state=Degraded");
    assert_eq!(cluster.conditions(), ["NodeDegraded=True"]);
}

#[test]
fn object_of_an_unknown_pool_is_left_to_the_controllers_and_found_later() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.delete_node_object();
    for role in ["infra", "gpu"] {
        cluster.create_pool(role);
        cluster.add_role(role);
    }
    let mut agent = cluster.start_agent(&host);
    let line = agent.wait_for_line(UNWRITTEN);
    assert!(line.contains("several pools: gpu, infra"), "{line}");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("desiredDrain=uncordon-rendered-one");
    assert_eq!(cluster.node_object(), Value::Null);
    cluster.restore_node_object();
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-one");
    cluster.wait_for_write("NodeDegraded: True");
    let reported = agent.output().lines().filter(|line| line.starts_with(UNWRITTEN)).count();
    assert_eq!(reported, 1, "{}", agent.output());
}

#[test]
fn drift_is_in_the_message_of_the_pool_and_ends_with_it() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-one");
    cluster.wait_for_write("state=Degraded");
    // The controller counts a node whose condition `Updated` is true as updated, and its pool as healthy.
    assert_eq!(cluster.conditions(), ["NodeDegraded=True"]);
    let message = cluster.condition_message("NodeDegraded");
    assert!(message.contains("/etc/app/a.conf"), "{message}");
    cluster.proxy.clear();
    host.write_etc("app/a.conf", "one");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    assert_eq!(cluster.conditions(), ["Updated=True"]);
}

/// Judgement of MCO's node controller on a cluster that reports images: `IsMachineUpdatedMCN` of a layered pool
/// whose desired config and image are these.
fn is_updated_for_the_pool(object: &Value, config: &str, image: &str) -> bool {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().unwrap();
    let is = |kind: &str| {
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    is("Updated")
        && !is("NodeDegraded")
        && status["configVersion"]["desired"] == config
        && status["configImage"]["desiredImage"] == image
}

#[test]
fn pool_of_a_cluster_that_reports_images_becomes_updated() {
    let host = Host::install(Os::new(1));
    let digest = osimage::write_image(&Os::new(2), &host.path("media/images"), Some("two")).unwrap();
    let local = "ostree-unverified-image:oci:/run/media/images:two";
    host.update(&host.config(full_config("one").json()), Some(local));
    let cluster = Cluster::start(&[("currentConfig", "rendered-one"), ("desiredConfig", "rendered-one")]);
    cluster.render(full_config("one").json());
    // The pool is layered with the image that the host has booted, under the name of a registry.
    let image = format!("registry.example.com/os/layered@{digest}");
    cluster.set_desired_in_node_object("rendered-one", &image);
    cluster.annotate("desiredImage", Some(&image));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    let object = cluster.node_object();
    let images = json!({"currentImage": image, "desiredImage": image});
    assert_eq!(object["status"]["configImage"], images);
    assert!(is_updated_for_the_pool(&object, "rendered-one", &image), "{object:#}");
    let kinds: Vec<&str> = object["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"AppliedFiles") && kinds.contains(&"AppliedOSImage"), "{kinds:?}");
    assert!(!kinds.contains(&"AppliedFilesAndOS"), "{kinds:?}");
}

#[test]
fn overridden_changes_are_let_through_and_reported() {
    let (host, cluster) = Cluster::with_node_on("one");
    host.write_etc("mcs-machine-config-content.json", &full_config("one").json().to_string());
    let mut two = full_config("one").json().clone();
    two["metadata"]["name"] = json!("rendered-two");
    two["spec"]["config"]["storage"]["filesystems"] =
        json!([{"device": "/dev/disk/by-label/data", "format": "xfs", "path": "/var/data"}]);
    cluster.render(full_config("one").json());
    cluster.render(&two);
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    assert_eq!(cluster.node_object()["status"]["irreconcilableChanges"], Value::Null);
    cluster.set_desired_config("rendered-two");
    let refused = agent.wait_for_line("BackingOff rendered-two");
    assert!(refused.contains("spec.config.storage.filesystems"), "{refused}");
    cluster.override_sections(&["FileSystems"]);
    agent.wait_for_line("the cluster's node disruption policy has changed");
    agent.wait_for_line("Done rendered-two");
    let written = || cluster.node_object()["status"]["irreconcilableChanges"].clone();
    cluster.wait_for_write("irreconcilableChanges: 1");
    assert_eq!(
        written(),
        json!([{"fieldPath": "spec.config.storage.filesystems",
            "diff": "added since the installation; values are left out"}])
    );
    let metrics = agent.metrics();
    assert!(metrics.contains("flameholder_irreconcilable_changes 1\n"), "{metrics}");
    // Once the config is as it was at the installation, nothing is left to report.
    cluster.set_desired_config("rendered-one");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("irreconcilableChanges: 0");
    assert_eq!(written(), Value::Null);
}

#[test]
fn irreconcilable_changes_of_an_earlier_daemon_are_removed() {
    let (host, cluster) = Cluster::with_node_on("one");
    let entry = json!({"fieldPath": "spec.config.storage.disks", "diff": "added"});
    cluster.patch_node_status(&json!({"irreconcilableChanges": [entry]}));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("irreconcilableChanges: 0");
    assert_eq!(cluster.node_object()["status"]["irreconcilableChanges"], Value::Null);
}
