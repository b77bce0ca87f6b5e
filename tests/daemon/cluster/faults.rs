//! An API server that is away, slow or broken: nothing is done on stale wishes, and what was missed is caught up with.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use testbed::{
    booted::config::whole,
    control_plane::{Answers, Cluster, Fault},
};

/// Each of them comes, and goes, and what is wanted since is caught up with.
fn outlast(faults: &[Fault]) {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    for fault in faults {
        cluster.proxy.fail(*fault);
        agent.says("warn: ");
        cluster.want("rendered-none");
        cluster.proxy.fail(Fault::None);
        agent.says("BackingOff rendered-none, on rendered-one: the cluster has no machineconfigs");
        cluster.want("rendered-one");
        agent.says("Done rendered-one");
    }
}

#[test]
fn connections_that_break_are_outlasted() {
    outlast(&[Fault::Reset, Fault::Half]);
}

#[test]
fn refusals_are_outlasted() {
    outlast(&[Fault::Status(401), Fault::Status(410), Fault::Status(500)]);
}

#[test]
fn an_update_goes_through_a_slow_api_server() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.proxy.fail(Fault::Late(Duration::from_millis(300)));
    cluster.want("rendered-two");
    agent.says("ShuttingDown rendered-two");
}

#[test]
fn nothing_is_rebooted_while_nobody_can_say_that_it_is_still_wanted() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.controller.answer(Answers::Never);
    cluster.want("rendered-two");
    agent.says("Draining rendered-two");
    cluster.proxy.fail(Fault::Silence);
    // The workload leaves, and the wish is taken back, while nobody can tell the node.
    cluster.controller.answer(Answers::Promptly);
    cluster.want("rendered-one");
    cluster.proxy.fail(Fault::None);
    agent.says("Done rendered-one");
    assert!(!host.is_staged());
    assert!(agent.logind.calls().is_empty(), "{:?}", agent.logind.calls());
}

/// How long a fault lasts: ten minutes, where there is time.
fn span() -> Duration {
    let is_exhaustive = testbed::is_exhaustive();
    Duration::from_secs(if is_exhaustive { 600 } else { 15 })
}

/// The longest that is waited between two attempts, in seconds: whoever asks no more often than twice in that asks seldom.
const LONGEST_DELAY: u64 = 38;
/// Attempts until the delay is that long, for each of the things that are asked for.
const FIRST_ATTEMPTS: usize = 20;

#[test]
fn a_broken_api_server_is_asked_ever_less_and_recovered_from_at_once() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    cluster.controller.answer(Answers::Never);
    cluster.want("rendered-two");
    agent.says("Draining rendered-two");
    cluster.proxy.forget();
    cluster.proxy.fail(Fault::Status(500));
    std::thread::sleep(span());
    let asked = cluster.proxy.record().asked.len();
    let most = FIRST_ATTEMPTS + usize::try_from(span().as_secs() / LONGEST_DELAY).unwrap() * 4;
    assert!(asked <= most, "{asked} requests in {:?}", span());
    // Nothing happened meanwhile, and what is wanted since is followed within one step of the delay.
    assert_eq!(agent.phases().last(), Some(&"Draining"));
    assert!(agent.logind.calls().is_empty(), "{:?}", agent.logind.calls());
    cluster.want("rendered-one");
    cluster.proxy.fail(Fault::None);
    agent.says("Done rendered-one");
}

#[test]
fn watches_that_break_each_second_lose_nothing() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    cluster.proxy.forget();
    let end = Instant::now() + span();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < end {
                std::thread::sleep(Duration::from_secs(1));
                cluster.proxy.fail(Fault::Half);
                cluster.proxy.fail(Fault::None);
            }
        });
        cluster.want("rendered-two");
        agent.says("ShuttingDown rendered-two");
    });
    assert_eq!(agent.reboots(), 1);
    let asked = cluster.proxy.record().asked.len();
    let most = 60 + usize::try_from(span().as_secs()).unwrap() * 4;
    assert!(asked <= most, "{asked} requests in {:?}", span());
}

/// Where Debian and Fedora have it.
const LIBFAKETIME: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib64/faketime/libfaketime.so.1"];
/// An hour, in seconds.
const HOUR: i64 = 3600;

#[test]
fn a_clock_that_jumps_changes_nothing() {
    let library = LIBFAKETIME.into_iter().find(|path| Path::new(path).exists());
    let library =
        library.expect("libfaketime, with which the clock is set, is installed: `cargo xtask setup`");
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    let clock = host.path("media/clock");
    let set = |seconds: i64| fs::write(&clock, format!("{seconds:+}")).unwrap();
    set(0);
    let environment = [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", "/run/media/clock"),
        ("FAKETIME_NO_CACHE", "1"),
        // As with a clock that is set: what elapses is told by another one.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    let mut agent = cluster.agent_with(&host, &environment);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    cluster.controller.answer(Answers::Never);
    cluster.want("rendered-two");
    agent.says("Draining rendered-two");
    cluster.is_told("UpdateExecuted: Unknown");
    cluster.is_told("desiredDrain=drain-rendered-two");
    cluster.proxy.forget();
    // A drain may take an hour: this is none.
    for jump in [2 * HOUR, -2 * HOUR, 0, 2 * HOUR] {
        set(jump);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(agent.phases().last(), Some(&"Draining"));
    let told = cluster.proxy.record();
    assert!(told.told().is_empty(), "{:?}", told.told());
    cluster.controller.answer(Answers::Promptly);
    agent.says("ShuttingDown rendered-two");
    assert_eq!(agent.reboots(), 1);
    // It did see the other time.
    let told = cluster.proxy.record().asked.into_iter().map(|asked| String::from_utf8(asked.body).unwrap());
    let times: Vec<Timestamp> = told.flat_map(|body| transitions(&body)).collect();
    let later = Timestamp::now() + Duration::from_secs(HOUR.unsigned_abs());
    assert!(times.iter().any(|time| *time > later), "{times:?}");
}

/// When the conditions in the body of a request changed.
fn transitions(body: &str) -> Vec<Timestamp> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let time = |condition: &Value| condition["lastTransitionTime"].as_str()?.parse().ok();
    conditions.iter().filter_map(time).collect()
}
