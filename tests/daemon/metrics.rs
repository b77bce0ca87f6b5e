//! Metrics endpoint of the daemon, which every user of the host can connect to.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;

use flameholder::core::daemon::message_ids;
use osimage::Os;
use testbed::agent::Agent;
use testbed::booted::host::Host;

const SOURCE: [&str; 2] = ["--source", "dir:/run/media/desired.json"];
/// Clients that connect and never send a whole request.
const HALF_OPEN: usize = 200;
/// Upper limit of the descriptors that they take in the daemon: 16 connections, and some for its own work.
const MAX_DESCRIPTORS: usize = 16 + 8;

/// Host whose daemon has a source without a config, and does nothing.
fn idle_agent(host: &Host) -> Agent {
    let mut agent = Agent::start(host, &SOURCE);
    agent.wait_for_line("Idle");
    agent
}

fn descriptors(agent: &Agent) -> usize {
    fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap().count()
}

#[test]
fn half_open_connections_take_a_limited_number_of_descriptors_and_end() {
    let host = Host::install(Os::new(1));
    let agent = idle_agent(&host);
    // The first response shows that the server listens.
    assert!(agent.metrics().contains("flameholder_build_info"));
    let before = descriptors(&agent);
    let clients: Vec<TcpStream> = (0..HALF_OPEN)
        .map(|_| {
            let mut client = TcpStream::connect(agent.metrics_address()).unwrap();
            client.write_all(b"GET /met").unwrap();
            let taken = descriptors(&agent).saturating_sub(before);
            assert!(taken <= MAX_DESCRIPTORS, "{taken} descriptors");
            client
        })
        .collect();
    // This client is behind all of them in the queue.
    let metrics = agent.metrics();
    assert!(metrics.contains("flameholder_build_info"), "{metrics}");
    assert_eq!(clients.len(), HALF_OPEN);
    let taken = descriptors(&agent).saturating_sub(before);
    assert!(taken <= MAX_DESCRIPTORS, "{taken} descriptors");
}

#[test]
fn host_without_a_kubelet_has_no_metric_of_its_health() {
    let host = Host::install(Os::new(1));
    let agent = idle_agent(&host);
    for _ in 0..2 {
        let metrics = agent.metrics();
        assert!(!metrics.contains("mcd_kubelet_state"), "{metrics}");
    }
}

#[test]
fn metrics_are_in_the_text_format_that_the_client_accepts() {
    let host = Host::install(Os::new(1));
    let agent = idle_agent(&host);
    let (header, body) = agent.metrics_response("");
    assert!(header.contains("content-type: text/plain; version=0.0.4"), "{header}");
    assert!(body.contains("# TYPE mcd_reboots_failed_total counter\n") && !body.contains("# EOF"), "{body}");
    let (header, body) =
        agent.metrics_response("Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert!(header.contains("content-type: application/openmetrics-text; version=1.0.0"), "{header}");
    assert!(body.contains("# TYPE mcd_reboots_failed counter\n") && body.ends_with("# EOF\n"), "{body}");
}

/// The only findings of Prometheus' linter: names that dashboards and alerts for MCD query.
const KEPT_NAMES: [&str; 1] =
    ["mcd_pivot_errors_total non-counter metrics should not have \"_total\" suffix"];

#[test]
fn promtool_finds_nothing_but_the_names_kept_for_mcd() {
    testbed::preconditions::require_installed(&["promtool"]);
    let host = Host::install(Os::new(1));
    let agent = idle_agent(&host);
    let metrics = agent.metrics();
    assert_eq!(testbed::promtool::findings(&metrics), KEPT_NAMES, "{metrics}");
    let present: Vec<&str> = metrics.lines().filter(|line| line.starts_with("flameholder_phase{")).collect();
    let phases = message_ids::phases().count();
    assert_eq!(present.len(), phases, "a series for each phase: {present:?}");
    assert!(present.contains(&"flameholder_phase{phase=\"Idle\"} 1"), "{present:?}");
    assert_eq!(present.iter().filter(|line| line.ends_with(" 0")).count(), phases - 1, "{present:?}");
}
