//! Faults of the API server: the daemon does not act on a stale desired config, retries with a backoff, and
//! follows the desired config once the server answers again.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use testbed::booted::config::full_config;
use testbed::control_plane::{Answers, Cluster, Fault};

/// Inject each fault while the desired config changes, and require that the daemon follows the change
/// afterwards.
fn assert_recovers_from(faults: &[Fault]) {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    for fault in faults {
        cluster.proxy.fail(*fault);
        agent.wait_for_line("warning: ");
        cluster.set_desired_config("rendered-none");
        cluster.proxy.fail(Fault::None);
        agent.wait_for_line("BackingOff rendered-none, on rendered-one: the cluster has no machineconfigs");
        cluster.set_desired_config("rendered-one");
        agent.wait_for_line("Done rendered-one");
    }
}

#[test]
fn daemon_recovers_from_broken_connections() {
    assert_recovers_from(&[Fault::Reset, Fault::Truncated]);
}

#[test]
fn daemon_recovers_from_error_responses() {
    assert_recovers_from(&[Fault::Status(401), Fault::Status(410), Fault::Status(500)]);
}

#[test]
fn update_succeeds_with_a_slow_api_server() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.proxy.fail(Fault::Delayed(Duration::from_millis(300)));
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
}

#[test]
fn drained_node_is_not_rebooted_while_the_api_server_is_silent() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent_that_drains(&host);
    cluster.proxy.fail(Fault::Silence);
    // The drain ends and the desired config is reset while the daemon cannot see either.
    cluster.controller.answer(Answers::Promptly);
    cluster.set_desired_config("rendered-one");
    cluster.proxy.fail(Fault::None);
    agent.wait_for_line("Done rendered-one");
    assert!(!host.is_staged());
    assert!(agent.logind.calls().is_empty(), "{:?}", agent.logind.calls());
}

#[test]
fn refused_conditions_are_written_once_the_server_accepts_them() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    cluster.proxy.fail(Fault::StatusOfPatch(403));
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line(
        "warning: not writing conditions of the MachineConfigNode, until it accepts them: the API server denies access",
    );
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("desiredDrain=uncordon-rendered-one");
    assert_eq!(cluster.conditions(), Vec::<String>::new());
    // The permission is granted; the update writes what the node's state is by then.
    cluster.proxy.fail(Fault::None);
    cluster.controller.answer(Answers::Never);
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("Draining rendered-two");
    cluster.wait_for_write("UpdateExecuted: Unknown");
    let warnings = agent.output().matches("not writing conditions").count();
    assert_eq!(warnings, 1, "a refusal is logged once: {}", agent.output());
}

/// Duration of a fault: ten minutes in an exhaustive run.
fn fault_duration() -> Duration {
    let is_exhaustive = testbed::is_exhaustive();
    Duration::from_secs(if is_exhaustive { 600 } else { 15 })
}

/// Attempts until the backoff reaches its limit, over all watched resources.
const FIRST_ATTEMPTS: u64 = 20;
/// Shortest delay between two attempts from then on, in seconds: 30 less a jitter of 25 %. Four requests are allowed
/// in that time.
const SHORTEST_DELAY: u64 = 22;

#[test]
fn broken_api_server_is_retried_with_backoff_and_followed_once_it_answers() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.controller.answer(Answers::Never);
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("Draining rendered-two");
    cluster.proxy.clear();
    cluster.proxy.fail(Fault::Status(500));
    std::thread::sleep(fault_duration());
    let limit = FIRST_ATTEMPTS + fault_duration().as_secs() / SHORTEST_DELAY * 4;
    let requests = cluster.proxy.log().counts();
    assert!(requests.values().sum::<u64>() <= limit, "more than {limit}: {requests:?}");
    // The daemon waits in its phase, and follows the desired config at the next retry.
    assert_eq!(agent.phases().last(), Some(&"Draining"));
    assert!(agent.logind.calls().is_empty(), "{:?}", agent.logind.calls());
    // The controller may have cordoned the node: it is asked to uncordon it again.
    cluster.controller.answer(Answers::Promptly);
    cluster.set_desired_config("rendered-one");
    cluster.proxy.fail(Fault::None);
    agent.wait_for_line("Done rendered-one");
}

#[test]
fn watches_that_break_each_second_lose_no_event() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.proxy.clear();
    let end = Instant::now() + fault_duration();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < end {
                std::thread::sleep(Duration::from_secs(1));
                cluster.proxy.fail(Fault::Truncated);
                cluster.proxy.fail(Fault::None);
            }
        });
        cluster.set_desired_config("rendered-two");
        agent.wait_for_line("ShuttingDown rendered-two");
    });
    assert_eq!(agent.reboots(), 1);
    let requests = cluster.proxy.log().requests.len();
    let limit = 60 + usize::try_from(fault_duration().as_secs()).unwrap() * 4;
    assert!(requests <= limit, "{requests} requests in {:?}", fault_duration());
}

/// Paths of the library on Debian and Fedora.
const LIBFAKETIME: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib64/faketime/libfaketime.so.1"];
/// One hour, in seconds.
const HOUR: i64 = 3600;

#[test]
fn clock_jumps_do_not_affect_a_drain() {
    let library = LIBFAKETIME.into_iter().find(|path| Path::new(path).exists());
    let library =
        library.expect("libfaketime, with which the clock is set, is installed: `cargo xtask setup`");
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let clock = host.path("media/clock");
    let set_clock = |seconds: i64| fs::write(&clock, format!("{seconds:+}")).unwrap();
    set_clock(0);
    let environment = [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", "/run/media/clock"),
        ("FAKETIME_NO_CACHE", "1"),
        // As on a host whose clock is set: the monotonic clock, which measures elapsed time, does not jump.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    let mut agent = cluster.start_agent_with_environment(&host, &environment);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.controller.answer(Answers::Never);
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("Draining rendered-two");
    cluster.wait_for_write("UpdateExecuted: Unknown");
    cluster.wait_for_write("desiredDrain=drain-rendered-two");
    cluster.proxy.clear();
    // By the wall clock the drain takes longer than the hour after which it counts as late.
    for jump in [2 * HOUR, -2 * HOUR, 0, 2 * HOUR] {
        set_clock(jump);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(agent.phases().last(), Some(&"Draining"));
    let log = cluster.proxy.log();
    assert!(log.writes().is_empty(), "{:?}", log.writes());
    cluster.controller.answer(Answers::Promptly);
    agent.wait_for_line("ShuttingDown rendered-two");
    assert_eq!(agent.reboots(), 1);
    // The jump did reach the daemon: conditions have times of the set clock.
    let requests = cluster.proxy.log().requests.into_iter();
    let bodies = requests.map(|request| String::from_utf8(request.body).unwrap());
    let times: Vec<Timestamp> = bodies.flat_map(|body| transition_times(&body)).collect();
    let later = Timestamp::now() + Duration::from_secs(HOUR.unsigned_abs());
    assert!(times.iter().any(|time| *time > later), "{times:?}");
}

/// `lastTransitionTime` of each condition in the body of a request.
fn transition_times(body: &str) -> Vec<Timestamp> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let time = |condition: &Value| condition["lastTransitionTime"].as_str()?.parse().ok();
    conditions.iter().filter_map(time).collect()
}
