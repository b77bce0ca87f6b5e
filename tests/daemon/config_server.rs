//! Daemon with a URL as source: the desired config is a document on a server.

use std::fs;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::Value;
use testbed::agent::Agent;
use testbed::booted::host::Host;
use testbed::https_server::{Authority, HttpsServer, ServerAnswer, ServerCertificate};
use testbed::model::document::config_server_answer;

use crate::directory::{apply_live_config, daemon_report, live_config};

const PATH: &str = "/config/worker";

fn answer(text: &str) -> String {
    config_server_answer(live_config(text).json(), &format!("rendered-{text}")).to_string()
}

/// Host that has the live config `one`, CA in its directory `media`, and a server of that config.
fn host_with_server() -> (Host, Authority, HttpsServer) {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    let authority = Authority::create(&host.path("media"));
    let server = HttpsServer::start(&authority, ServerCertificate::Valid, &answer("one"));
    (host, authority, server)
}

fn start(host: &Host, server: &HttpsServer) -> Agent {
    let url = server.url(PATH);
    Agent::start(host, &["--source", &url, "--server-ca", "/run/media/ca.pem", "--poll-interval", "1"])
}

fn serve(server: &HttpsServer, text: &str) {
    server.with(|state| state.document = answer(text).into_bytes());
}

#[test]
fn changed_document_is_applied_and_an_unchanged_one_is_not_fetched_again() {
    let (host, _authority, server) = host_with_server();
    server.with(|state| state.etag = Some("one".to_owned()));
    let mut agent = start(&host, &server);
    agent.wait_for_line("Done rendered-one");
    let asked = server.with(|state| state.requests.len());
    server.wait_for_requests(asked + 2);
    let head = server.with(|state| state.requests.last().cloned()).unwrap();
    assert!(head.contains("if-none-match: \"one\""), "{head}");
    server.with(|state| state.etag = Some("two".to_owned()));
    serve(&server, "two");
    agent.wait_for_line("Done rendered-two");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("two"));
    let report = daemon_report(&host);
    assert_eq!(report["source"], server.url(PATH));
    // A server that names no version is asked for the whole document, which leads to nothing new.
    server.with(|state| state.etag = None);
    let asked = server.with(|state| state.requests.len());
    server.wait_for_requests(asked + 2);
    serve(&server, "three");
    agent.wait_for_line("Done rendered-three");
    assert_eq!(
        agent.phases().iter().filter(|phase| **phase == "Applying").count(),
        2,
        "{:?}",
        agent.phases()
    );
    host.assert_no_drift();
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn fault_of_the_server_is_reported_and_the_last_config_stays() {
    let (host, _authority, server) = host_with_server();
    let mut agent = start(&host, &server);
    agent.wait_for_line("Done rendered-one");
    for (answer, mentions) in [
        (ServerAnswer::Status(404, None), "it has no such document"),
        (ServerAnswer::Truncated, "is incomplete"),
    ] {
        server.with(|state| state.answer = answer);
        let warning = agent.wait_for_line("warning: ");
        assert!(warning.contains(mentions) && warning.contains(&server.url(PATH)), "{warning}");
        // The line that follows the report.
        agent.wait_for_line("Done");
        let report = daemon_report(&host);
        assert_eq!(report["phase"], "Done");
        assert!(report["sourceError"].as_str().is_some_and(|error| error.contains(mentions)), "{report}");
    }
    server.with(|state| {
        state.answer = ServerAnswer::Document;
        state.document = b"{\"kind\": \"MachineConfig\"}".to_vec();
    });
    let warning = agent.wait_for_line("warning: ");
    assert!(warning.contains(&server.url(PATH)), "{warning}");
    serve(&server, "two");
    agent.wait_for_line("Done rendered-two");
    assert_eq!(daemon_report(&host)["sourceError"], Value::Null);
}

#[test]
fn renewed_ca_and_token_are_used_with_the_next_request() {
    let (host, authority, server) = host_with_server();
    let token = host.path("media/token");
    server.with(|state| state.token = Some("first".to_owned()));
    fs::write(&token, "first").unwrap();
    let url = server.url(PATH);
    let arguments = ["--source", &url, "--server-ca", "/run/media/ca.pem", "--poll-interval", "1"];
    let mut agent = Agent::start(&host, &[&arguments[..], &["--token-file", "/run/media/token"]].concat());
    agent.wait_for_line("Done rendered-one");
    server.with(|state| state.token = Some("second".to_owned()));
    let warning = agent.wait_for_line("warning: ");
    assert!(warning.contains("it wants other credentials"), "{warning}");
    fs::write(&token, "second").unwrap();
    serve(&server, "two");
    agent.wait_for_line("Done rendered-two");
    let old = fs::read(authority.ca()).unwrap();
    authority.renew();
    let warning = agent.wait_for_line("warning: ");
    assert!(warning.contains("is from a CA that is not trusted here"), "{warning}");
    fs::write(authority.ca(), old).unwrap();
    serve(&server, "three");
    agent.wait_for_line("Done rendered-three");
    assert!(!agent.output().contains("second"));
}

#[test]
fn settings_that_cannot_be_used_keep_the_daemon_from_trusting_a_server() {
    let (host, _authority, server) = host_with_server();
    host.write_etc("flameholder/config.d/10-pins.toml", "[source]\nserver-pins = [\"sha256//\"]\n");
    let url = server.url(PATH);
    let outcome = host.run(["flameholder", "daemon", "--source", &url, "--server-ca", "/run/media/ca.pem"]);
    assert_eq!(outcome.code, Some(78), "{outcome:?}");
    assert!(outcome.stderr.contains("10-pins.toml:2:15"), "{outcome:?}");
    assert_eq!(server.with(|state| state.requests.len()), 0);
}
