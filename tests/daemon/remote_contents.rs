//! Daemon and `apply` with a config that names contents by URL and hash: they are fetched first, kept by their hash, and part of the
//! generation.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testbed::agent::Agent;
use testbed::booted::host::Host;
use testbed::dbus::fake_logind::Script;
use testbed::https_server::{Authority, HttpsServer, ServerAnswer, ServerCertificate};

use crate::directory::{apply_live_config, daemon_report};

pub(crate) const CA: &str = "/run/media/ca.pem";
/// Path whose changes disturb nothing.
pub(crate) const FILE: &str = "/etc/nmstate/openshift/app.yml";
pub(crate) const CACHE: &str = "lib/flameholder/fetched";

pub(crate) fn hash(contents: &str) -> String {
    let hash = Sha256::digest(contents);
    format!("sha256-{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Host with a live config, CA in its directory `media`, and a server.
fn host_with_server(contents: &str) -> (Host, Authority, HttpsServer) {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    let authority = Authority::create(&host.path("media"));
    let server = HttpsServer::start(&authority, ServerCertificate::Valid, contents);
    (host, authority, server)
}

fn desire(host: &Host, server: &HttpsServer, hash: &str) {
    let url = server.url("/app.yml?signature=very-secret");
    let file = json!({"path": FILE, "mode": 420, "overwrite": true,
        "contents": {"source": url, "verification": {"hash": hash}}});
    let document: Value = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}});
    let (path, new) = (host.path("media/desired.ign"), host.path("media/.new"));
    fs::write(&new, document.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

fn start(host: &Host) -> Agent {
    let arguments = ["--source", "dir:/run/media/desired.ign"];
    Agent::start_with_environment(host, &arguments, Script::default(), &[("SSL_CERT_FILE", CA)])
}

#[test]
fn contents_are_fetched_again_until_the_server_has_them_and_then_kept() {
    let (host, _authority, server) = host_with_server("two");
    desire(&host, &server, &hash("two"));
    server.with(|state| state.answer = ServerAnswer::Status(404, None));
    let mut agent = start(&host);
    let warning = agent.wait_for_line("warning: ");
    let url = server.url("/app.yml");
    let expected =
        format!("the contents of {FILE} cannot be fetched from {url}: {url} answers with status 404");
    assert!(warning.contains(&expected), "{warning}");
    // Nothing else changes: the daemon asks again by itself.
    server.with(|state| state.answer = ServerAnswer::Document);
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("two"));
    let kept = host.var(CACHE).join(hash("two"));
    assert_eq!(fs::read_to_string(&kept).unwrap(), "two");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept), mode(&host.var(CACHE))), (0o600, 0o700));
    host.assert_no_drift();
    agent.signal(Signal::SIGTERM);
    assert!(!agent.output().contains("very-secret"));
    assert_eq!(agent.end(), Some(0));
    // Another start needs no server.
    server.with(|state| state.answer = ServerAnswer::Closed);
    let asked = server.with(|state| state.requests.len());
    let mut agent = start(&host);
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(server.with(|state| state.requests.len()), asked);
}

#[test]
fn changed_config_is_read_while_a_server_stalls() {
    let (host, _authority, server) = host_with_server("two");
    desire(&host, &server, &hash("two"));
    server.with(|state| state.answer = ServerAnswer::Stalled);
    let mut agent = start(&host);
    server.wait_for_requests(1);
    server.with(|state| {
        state.answer = ServerAnswer::Document;
        state.document = b"three".to_vec();
    });
    desire(&host, &server, &hash("three"));
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("three"));
}

#[test]
fn contents_with_another_hash_are_refused_until_the_config_or_the_server_is_right() {
    let (host, _authority, server) = host_with_server("two");
    desire(&host, &server, &hash("two"));
    let mut agent = start(&host);
    agent.wait_for_line("Done rendered-local-");
    desire(&host, &server, &hash("three"));
    let warning = agent.wait_for_line("warning: ");
    // The line that follows the report.
    agent.wait_for_line("Done");
    let report = daemon_report(&host);
    assert!(report["sourceError"].as_str().is_some_and(|error| error.contains(&hash("three"))), "{report}");
    for part in [FILE, &server.url("/app.yml"), &hash("two"), &hash("three")] {
        assert!(warning.contains(part), "{warning}");
    }
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("two"));
    assert!(!host.var(CACHE).join(hash("three")).exists());
    server.with(|state| state.document = b"four".to_vec());
    desire(&host, &server, &hash("four"));
    agent.wait_for_line("Applying rendered-local-");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("four"));
    assert_eq!(daemon_report(&host)["sourceError"], Value::Null);
}

#[test]
fn applied_contents_are_planned_and_verified_without_a_server_until_another_config_is_applied() {
    let (host, _authority, server) = host_with_server("two");
    desire(&host, &server, &hash("two"));
    let ca = format!("SSL_CERT_FILE={CA}");
    let run = |arguments: &[&str]| host.run([&["env", ca.as_str(), "flameholder"], arguments].concat());
    let desired = ["--desired", "/run/media/desired.ign"];
    // A plan changes nothing.
    let planned = run(&[&["plan"], &desired[..]].concat());
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(!host.var(CACHE).exists());
    let applied = run(&[&["apply"], &desired[..]].concat());
    assert_eq!(applied.code, Some(0), "{applied:?}");
    server.with(|state| state.answer = ServerAnswer::Closed);
    let planned = run(&[&["plan", "--exit-code"], &desired[..]].concat());
    assert_eq!(planned.code, Some(0), "{planned:?}");
    host.assert_no_drift();
    // The contents of the current config stay; then they go.
    for left in [1, 0] {
        apply_live_config(&host, "three");
        assert_eq!(fs::read_dir(host.var(CACHE)).unwrap().count(), left);
    }
    let planned = run(&[&["plan"], &desired[..]].concat());
    assert_eq!(planned.code, Some(75), "{planned:?}");
    assert!(planned.stderr.contains(FILE) && !planned.stderr.contains("very-secret"), "{planned:?}");
}
