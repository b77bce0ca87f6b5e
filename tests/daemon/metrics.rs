//! Metrics endpoint of the daemon, which every user of the host can connect to.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;

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
fn scrapes_do_not_count_as_failed_queries_of_the_kubelet() {
    let host = Host::install(Os::new(1));
    let agent = idle_agent(&host);
    for _ in 0..2 {
        let metrics = agent.metrics();
        assert!(metrics.contains("mcd_kubelet_state 0\n"), "{metrics}");
    }
}
