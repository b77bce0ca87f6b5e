//! Pinned image sets: pulled from a container runtime of the CRI, pinned, and reported, beside updates.

use std::fs;
use std::time::Instant;

use osimage::{ImageRegistry, Os, RegistryAnswers};
use serde_json::{Value, json};
use testbed::agent::Agent;
use testbed::booted::config::full_config;
use testbed::booted::host::Host;
use testbed::control_plane::trust::base64;
use testbed::control_plane::{Answers, Cluster};
use testbed::cri_server::{AskedPull, CriServer};
use testbed::dbus::fake_systemd::{FakeSystemd, Script};
use testbed::output_lines::LONGEST_WAIT;

/// Disk that has much more than the reserve of 16 GiB.
pub(crate) const LARGE_DISK: u64 = 64 << 30;
const DROP_IN: &str = "crio/crio.conf.d/50-pinned-images";
const RELOAD: &str = "ReloadUnit crio.service replace";

fn image(name: &str) -> String {
    format!("registry.invalid/{name}@sha256:{:064}", name.len())
}

/// Contents of the drop-in for these images.
fn drop_in(images: &[String]) -> String {
    let images: Vec<String> = images.iter().map(|image| format!("\"{image}\"")).collect();
    format!("[crio]\n  [crio.image]\n    pinned_images = [{}]\n", images.join(", "))
}

/// Worker on `rendered-one` with a container runtime.
fn worker_with(disk: u64) -> (Host, Cluster, CriServer) {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.create_pool("worker");
    cluster.add_role("worker");
    let cri = CriServer::start(&host, disk);
    (host, cluster, cri)
}

/// Daemon that is `Done`, and its systemd.
fn done(host: &Host, cluster: &Cluster) -> (Agent, FakeSystemd) {
    let mut agent = cluster.start_agent(host);
    let systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    (agent, systemd)
}

/// Wait until the status of the node's object has what `find` finds in it.
fn wait_for_status<T>(cluster: &Cluster, find: impl Fn(&Value) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        let requests = cluster.proxy.log().requests.len();
        let status = &cluster.node_object()["status"];
        if let Some(found) = find(status) {
            return found;
        }
        assert!(began.elapsed() < LONGEST_WAIT, "{status:#}");
        // The next request of the node.
        cluster.proxy.wait(LONGEST_WAIT, |log| log.requests.len() > requests);
    }
}

/// Wait until the node's object has this condition, and return its message.
fn wait_for_condition(cluster: &Cluster, kind: &str, status: &str, reason: &str) -> String {
    wait_for_status(cluster, |found| {
        let found = found["conditions"].as_array()?.iter().find(|condition| {
            [&condition["type"], &condition["status"], &condition["reason"]] == [kind, status, reason]
        });
        Some(found?["message"].as_str()?.to_owned())
    })
}

pub(crate) fn wait_until_pinned(cluster: &Cluster) -> String {
    wait_for_condition(cluster, "PinnedImageSetsProgressing", "False", "AsExpected")
}

fn entries(cluster: &Cluster) -> Value {
    cluster.node_object()["status"]["pinnedImageSets"].clone()
}

#[test]
fn images_are_pulled_pinned_and_reported_until_their_set_is_gone() {
    let (host, cluster, cri) = worker_with(LARGE_DISK);
    let [one, two, three] = ["one", "three", "twelve"].map(image);
    let generation = cluster.pin_images("worker", "release", &[&two, &one]);
    let (agent, systemd) = done(&host, &cluster);
    assert_eq!(wait_until_pinned(&cluster), "2 images of 1 pinned image set on the node, and kept there");
    assert_eq!(cri.images(), [one.clone(), two.clone()].into());
    assert_eq!(host.read_etc(DROP_IN).unwrap(), drop_in(&[one.clone(), two.clone()]));
    assert_eq!(systemd.calls().iter().filter(|call| *call == RELOAD).count(), 1);
    let entry =
        json!([{"name": "release", "currentGeneration": generation, "desiredGeneration": generation}]);
    assert_eq!(entries(&cluster), entry);
    let status = host.run_ok(["flameholder", "status"]);
    assert!(status.contains("pinned images:  2 images of 1 pinned image set on the node"), "{status}");
    assert!(agent.metrics().contains("flameholder_pinned_images{state=\"present\"} 2"));

    // Another daemon finds everything in place, and neither writes nor reloads anything.
    drop((agent, systemd));
    let mut agent = cluster.start_agent(&host);
    let systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("Done rendered-one");
    assert_eq!(cri.pulls().len(), 2);

    // What another program removes comes back.
    fs::remove_file(host.etc(DROP_IN)).unwrap();
    let removed = Instant::now();
    while host.read_etc(DROP_IN).is_none() {
        assert!(removed.elapsed() < LONGEST_WAIT, "{}", agent.output());
        agent.wait_for_line("");
    }

    // Only the difference is pulled.
    let generation = cluster.pin_images("worker", "release", &[&two, &three]);
    let current = |status: &Value| status["pinnedImageSets"][0]["currentGeneration"].as_i64();
    wait_for_status(&cluster, |status| (current(status) == Some(generation)).then_some(()));
    assert_eq!(host.read_etc(DROP_IN).unwrap(), drop_in(&[two.clone(), three.clone()]));
    assert_eq!(cri.pulls().len(), 3);

    cluster.unpin_images("worker", "release");
    let began = Instant::now();
    while host.read_etc(DROP_IN).is_some() || !entries(&cluster).is_null() {
        assert!(began.elapsed() < LONGEST_WAIT, "{}", agent.output());
        agent.wait_for_line("");
    }
    assert_eq!(systemd.calls().iter().filter(|call| *call == RELOAD).count(), 3, "{:?}", systemd.calls());
    drop(agent);
    host.assert_no_drift();
    let history = host.run_ok(["flameholder", "history"]);
    assert!(history.contains("imagesPinned"), "{history}");
}

#[test]
fn failed_pull_is_reported_with_its_reason_and_tried_again() {
    let (host, cluster, cri) = worker_with(LARGE_DISK);
    let [good, bad] = ["good", "bad"].map(image);
    cri.fail(&bad, Some("manifest unknown"));
    let generation = cluster.pin_images("worker", "release", &[&good, &bad]);
    let (agent, _systemd) = done(&host, &cluster);
    let reason = wait_for_condition(&cluster, "PinnedImageSetsDegraded", "True", "PrefetchFailed");
    assert_eq!(reason, format!("pulling {bad}: manifest unknown"));
    assert_eq!(cri.pulls().iter().filter(|pull| pull.image == bad).count(), 5);
    assert_eq!(cri.images(), [good.clone()].into(), "one bad image keeps no other back");
    assert_eq!(host.read_etc(DROP_IN), None, "before all are there");
    let entry = &entries(&cluster)[0];
    assert_eq!(entry["lastFailedGeneration"], json!(generation));
    assert_eq!(entry["lastFailedGenerationError"], json!(reason));
    assert_eq!(cluster.annotation("state").as_deref(), Some("Done"), "the node itself is well");
    let status = host.run_ok(["flameholder", "status"]);
    assert!(
        status.contains(&format!("1 of 2 images of 1 pinned image set on the node: {reason}")),
        "{status}"
    );

    cri.fail(&bad, None);
    wait_until_pinned(&cluster);
    wait_for_condition(&cluster, "PinnedImageSetsDegraded", "False", "AsExpected");
    assert_eq!(host.read_etc(DROP_IN).unwrap(), drop_in(&[bad, good]));
    drop(agent);
}

#[test]
fn failure_of_a_set_that_is_deleted_while_the_daemon_is_down_is_forgotten() {
    let (host, cluster, cri) = worker_with(LARGE_DISK);
    let bad = image("bad");
    cri.fail(&bad, Some("manifest unknown"));
    cluster.pin_images("worker", "release", &[&bad]);
    let (agent, systemd) = done(&host, &cluster);
    wait_for_condition(&cluster, "PinnedImageSetsDegraded", "True", "PrefetchFailed");
    drop((agent, systemd));
    cluster.unpin_images("worker", "release");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    wait_until_pinned(&cluster);
    wait_for_condition(&cluster, "PinnedImageSetsDegraded", "False", "AsExpected");
    assert!(entries(&cluster).is_null());
    let status = host.run_ok(["flameholder", "status"]);
    assert!(!status.contains("pinned images"), "{status}");
}

#[test]
fn registry_that_asks_for_a_user_gets_the_one_of_the_kubelets_pull_secret() {
    let (host, cluster, cri) = worker_with(LARGE_DISK);
    let secret = json!({"auths": {"registry.invalid": {"auth": base64("a-user:very-secret")}}});
    fs::write(host.var("lib/kubelet/config.json"), secret.to_string()).unwrap();
    let private = image("private");
    cri.require_user(&private, "a-user");
    cluster.pin_images("worker", "release", &[&private]);
    let (agent, _systemd) = done(&host, &cluster);
    wait_until_pinned(&cluster);
    let pull =
        |username: Option<&str>| AskedPull { image: private.clone(), username: username.map(str::to_owned) };
    assert_eq!(cri.pulls(), [pull(None), pull(Some("a-user"))]);
    assert!(!agent.output().contains("very-secret") && !cluster.published().contains("very-secret"));
}

#[test]
fn images_that_do_not_fit_are_not_pulled() {
    // The reserve, and less than the images need.
    let (host, cluster, cri) = worker_with((16 << 30) + (16 << 10));
    let images = host.path("images");
    let digest = osimage::write_image(&Os::new(1), &images, Some("os")).unwrap();
    let registry = ImageRegistry::start(RegistryAnswers::Layout(images)).unwrap();
    registry.write_home(&host.path("media/home")).unwrap();
    let image = format!("{}/os@{digest}", registry.address());
    cluster.pin_images("worker", "release", &[&image]);
    let mut agent = cluster.start_agent_with_environment(&host, &[("HOME", "/run/media/home")]);
    agent.wait_for_line("Done rendered-one");
    let reason = wait_for_condition(&cluster, "PinnedImageSetsDegraded", "True", "PrefetchFailed");
    let expected = "the missing images of the pinned image sets (1) need 1 MiB on the file system of /var/lib/containers/storage, \
                    which has 16384 MiB free, of which 16384 MiB stay free; shorten the sets, or enlarge it";
    assert_eq!(reason, expected);
    assert_eq!(cri.pulls(), []);
}

#[test]
fn pulls_keep_no_update_waiting_and_end_with_their_sets() {
    let (host, cluster, cri) = worker_with(LARGE_DISK);
    let names: Vec<String> = (1..8).map(|number| image(&"x".repeat(number))).collect();
    let images: Vec<&str> = names.iter().map(String::as_str).collect();
    cri.hold(true);
    cluster.pin_images("worker", "release", &images);
    let (mut agent, _systemd) = done(&host, &cluster);
    cri.wait_for_held(5);
    let message = wait_for_condition(&cluster, "PinnedImageSetsProgressing", "True", "ImagePrefetch");
    assert_eq!(message, "0 of 7 images of 1 pinned image set on the node");

    // Other sets: the pulls of those before end.
    let other = image("other");
    cluster.pin_images("worker", "release", &[&other]);
    cri.wait_for_held_alone(&other);
    assert_eq!(cri.most_pulls_at_once(), 5);

    // An update passes by.
    cluster.render(full_config("two").json());
    cluster.controller.answer(Answers::Promptly);
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    drop(agent);
    cri.wait_for_held(0);
    assert_eq!(cri.images(), [].into());
    cri.hold(false);
    host.reboot();
    cri.serve(&host);
    let mut agent = cluster.start_agent(&host);
    let _systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("Done rendered-two");
    wait_until_pinned(&cluster);
    assert_eq!(host.read_etc(DROP_IN).unwrap(), drop_in(&[other]));
}
