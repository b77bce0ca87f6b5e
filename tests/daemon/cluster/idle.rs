//! Wake-ups, requests and writes of an idle daemon.

mod release;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::agent::Agent;
use testbed::booted::host::Host;
use testbed::control_plane::Cluster;
use testbed::cri_server::CriServer;
use testbed::dbus::fake_pid1::FakePid1;
use testbed::dbus::fake_systemd::Script;
use testbed::output_lines::LONGEST_WAIT;

use crate::cluster::pinned_images::{LARGE_DISK, wait_until_pinned};

/// Wake-ups so far of each thread of the process.
fn wake_ups(pid: i32) -> BTreeMap<OsString, u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("sched")).unwrap();
        let line = text.lines().find(|line| line.starts_with("nr_voluntary_switches")).unwrap();
        (task.file_name(), line.rsplit(':').next().unwrap().trim().parse().unwrap())
    };
    tasks.map(|task| of_task(task.unwrap())).collect()
}

/// Wake-ups of the process since `before`. A thread that ended since then is left out: one of the pool for blocking
/// calls ends once, at its idle limit, and takes its count with it.
fn wake_ups_since(before: &BTreeMap<OsString, u64>, pid: i32) -> u64 {
    wake_ups(pid).iter().map(|(task, woken)| woken - before.get(task).unwrap_or(&0)).sum()
}

/// Bytes that the process wrote so far, to files, sockets and pipes.
fn written(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:")).unwrap();
    line.trim().parse().unwrap()
}

/// Upper limit of the wake-ups in a minute: bookmarks from the API server and the restart of a watch. The
/// daemon has no timer of its own.
const MAX_WAKE_UPS: u64 = 4;
/// Shortest duration of a watch, in seconds.
const WATCH_SECONDS: u64 = 300;
/// Upper limit of the bytes that the request for a watch takes.
const WATCH_REQUEST: u64 = 1024;

/// Wake-ups for one sample of the kubelet's health: the timer, the thread's result, and the first of either on another
/// thread.
const SAMPLE_WAKE_UPS: u64 = 4;
/// Interval of the samples, in seconds.
const SAMPLE_SECONDS: u64 = 30;

#[test]
fn idle_daemon_whose_metrics_are_read_wakes_up_for_the_kubelets_health_only() {
    testbed::preconditions::require_installed(&["promtool"]);
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _systemd = FakePid1::enabling_kubelet(&host, free);
    // The daemon looks for the kubelet when work has ended.
    host.write_etc("app/a.conf", "changed");
    agent.wait_for_line("Drifted rendered-one");
    host.write_etc("app/a.conf", "one");
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("state=Done");
    assert!(!agent.metrics().contains("mcd_kubelet_state"), "a sample was taken before the first scrape");
    wait_for_failures(&agent, 1);
    testbed::promtool::assert_alerts(&testbed::promtool::OPERATOR_RULES, &agent.metrics(), &[]);
    std::thread::sleep(Duration::from_secs(5));
    let (pid, span) = (agent.pid(), Duration::from_secs(30));
    let before = wake_ups(pid);
    std::thread::sleep(span);
    let woken = wake_ups_since(&before, pid);
    let samples = span.as_secs().div_ceil(SAMPLE_SECONDS) + 1;
    eprintln!("{woken} wake-ups in {span:?}");
    assert!(woken <= MAX_WAKE_UPS + samples * SAMPLE_WAKE_UPS, "{woken} wake-ups in {span:?}");
    // The alert asks for three failures in a row.
    wait_for_failures(&agent, 3);
    testbed::promtool::assert_alerts(
        &testbed::promtool::OPERATOR_RULES,
        &agent.metrics(),
        &["KubeletHealthState"],
    );
}

/// Wait until the metric has this value. Reading it more often does not count more failures.
fn wait_for_failures(agent: &Agent, failures: u32) {
    let end = Instant::now() + LONGEST_WAIT;
    while !agent.metrics().contains(&format!("mcd_kubelet_state {failures}\n")) {
        assert!(Instant::now() < end, "{}", agent.metrics());
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Give the node all that a cluster has for it besides its config: trust material and pinned images.
fn give_everything(host: &Host, cluster: &Cluster) -> CriServer {
    cluster.create_trust(&json!({}));
    cluster.create_pool("worker");
    cluster.add_role("worker");
    let image = format!("registry.invalid/a@sha256:{:064}", 1);
    cluster.pin_images("worker", "release", &[&image]);
    CriServer::start(host, LARGE_DISK)
}

#[test]
fn idle_daemon_neither_wakes_up_nor_writes() {
    let (host, cluster) = Cluster::with_node_on("one");
    let _runtime = give_everything(&host, &cluster);
    let mut agent = cluster.start_agent(&host);
    let _systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    wait_until_pinned(&cluster);
    // Writes in the background end first.
    std::thread::sleep(Duration::from_secs(5));
    cluster.proxy.clear();
    let span = Duration::from_secs(if testbed::is_exhaustive() { 300 } else { 30 });
    let pid = agent.pid();
    let (wake_ups_before, written_before) = (wake_ups(pid), written(pid));
    std::thread::sleep(span);
    let (woken, wrote) = (wake_ups_since(&wake_ups_before, pid), written(pid) - written_before);
    let requests = cluster.proxy.log().requests;
    eprintln!("{woken} wake-ups, {wrote} bytes written, {} requests in {span:?}", requests.len());
    let most = usize::try_from(span.as_secs() / WATCH_SECONDS).unwrap();
    let is_watch = requests.iter().all(|request| request.target.contains("watch=true"));
    assert!(is_watch && requests.len() <= most, "{requests:?}");
    assert!(wrote <= WATCH_REQUEST * most as u64, "the idle daemon wrote {wrote} bytes");
    let most = MAX_WAKE_UPS * span.as_secs().div_ceil(60);
    assert!(woken <= most, "{woken} wake-ups in {span:?}, {most} are allowed");
}
