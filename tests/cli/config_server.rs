//! `plan` and `apply` with the address of a document on a server, which may be hostile.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use flameholder::core::config::settings::server_access::ServerAccess;
use flameholder::https::{DocumentAnswer, DocumentRequest, DocumentVersion, HttpsError, fetch};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::https_server::{Authority, HttpsServer, ServerAnswer, ServerCertificate};
use testbed::model::document::{config_server_answer, data_url, file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::tree::Tree;

const PATH: &str = "/config/worker";
/// Longest time of a request to a server that stalls.
const SHORT_LIMIT: Duration = Duration::from_secs(2);

/// CA in a directory of its own, and a server with this certificate.
fn server_with(kind: ServerCertificate) -> (TempDir, Authority, HttpsServer) {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create(directory.path());
    let server = HttpsServer::start(&authority, kind, &config("served").to_string());
    (directory, authority, server)
}

fn server() -> (TempDir, Authority, HttpsServer) {
    server_with(ServerCertificate::Valid)
}

fn config(text: &str) -> Value {
    with_files(&format!("rendered-worker-{text}"), &[file("/etc/app.conf", text)])
}

fn plan(tree: &Tree, url: &str, options: &[&str]) -> Outcome {
    let root = tree.root().to_str().unwrap();
    flameholder(["plan", "--root", root, "--desired", url].iter().chain(options))
}

fn plan_with_ca(authority: &Authority, url: &str) -> Outcome {
    plan(&Tree::new(), url, &["--server-ca", authority.ca().to_str().unwrap()])
}

#[test]
fn config_of_a_pool_is_applied_from_its_server() {
    let (_directory, authority, server) = server();
    let answer = config_server_answer(&config("served"), "rendered-worker-served");
    server.with(|state| state.document = answer.to_string().into_bytes());
    let (tree, url, ca) = (Tree::new(), server.url(PATH), authority.ca());
    let planned = plan(&tree, &url, &["--server-ca", ca.to_str().unwrap()]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(planned.first_line().contains(" rendered-worker-served "), "{planned:?}");
    assert!(planned.stderr.contains(&format!("{url} comes from a config server")), "{}", planned.stderr);
    let root = tree.root().to_str().unwrap();
    let arguments = ["apply", "--root", root, "--desired", &url, "--server-ca", ca.to_str().unwrap()];
    let applied = flameholder(arguments);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(fs::read_to_string(tree.root().join("etc/app.conf")).unwrap(), "served");
    let head = server.with(|state| state.requests.first().cloned()).unwrap();
    assert!(head.starts_with("get /config/worker http/1.1\r\n"), "{head}");
    assert!(head.contains("version=3.6.0, ") && !head.contains("version=3.0"), "{head}");
}

#[test]
fn config_without_a_name_is_named_by_the_pool() {
    let (_directory, authority, server) = server();
    let ignition = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [
        {"path": "/etc/app.conf", "mode": 420, "contents": {"source": data_url(b"plain")}}
    ]}});
    server.with(|state| state.document = ignition.to_string().into_bytes());
    let planned = plan_with_ca(&authority, &server.url(PATH));
    assert!(planned.first_line().contains(" worker-"), "{planned:?}");
    let planned = plan_with_ca(&authority, &server.url("/desired.ign"));
    assert!(planned.first_line().contains(" ignition-"), "{planned:?}");
}

#[test]
fn server_that_refuses_version_3_is_asked_for_version_2() {
    let (_directory, authority, server) = server();
    server.with(|state| state.versions = vec!["2.2"]);
    let planned = plan_with_ca(&authority, &server.url(PATH));
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let heads = server.with(|state| state.requests.clone());
    assert_eq!(heads.len(), 2, "{heads:?}");
    assert!(heads[1].contains("version=2.2.0") && !heads[1].contains("version=3"), "{}", heads[1]);
    // One retry, not more.
    server.with(|state| state.versions = vec!["4.0"]);
    let refused = plan_with_ca(&authority, &server.url(PATH));
    assert!(refused.stderr.contains("no version of Ignition that is understood here"), "{refused:?}");
    assert_eq!(server.with(|state| state.requests.len()), 4);
}

#[test]
fn certificate_that_is_not_trusted_is_refused_with_its_fault() {
    for (kind, mentions) in [
        (ServerCertificate::Expired, "has expired: renew it"),
        (ServerCertificate::NotYetValid, "is not valid yet: correct the clock"),
        (ServerCertificate::OnlyCommonName, "has no subject alternative name, only a common name"),
        (ServerCertificate::OtherName, "is for api-int.example.com, not for this address"),
        (ServerCertificate::OtherAuthority, "is from a CA that is not trusted here"),
    ] {
        let (_directory, authority, server) = server_with(kind);
        let refused = plan_with_ca(&authority, &server.url(PATH));
        assert_eq!(refused.code, Some(1), "{kind:?}: {refused:?}");
        let beginning = format!("the certificate of {}", server.url("").trim_start_matches("https://"));
        assert!(
            refused.stderr.contains(&beginning) && refused.stderr.contains(mentions),
            "{kind:?}: {refused:?}"
        );
        assert_eq!(server.with(|state| state.requests.len()), 0, "{kind:?}");
    }
    // The CAs of the system do not have that of the test.
    let (_directory, _, server) = server();
    let refused = plan(&Tree::new(), &server.url(PATH), &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

#[test]
fn key_that_no_pin_lists_is_refused_and_named() {
    let (_directory, authority, server) = server();
    let (tree, url) = (Tree::new(), server.url(PATH));
    let ca = authority.ca();
    let with_pins = |pins: &[&str]| {
        let pins = pins.iter().flat_map(|pin| ["--server-pin", pin]);
        let options: Vec<&str> = ["--server-ca", ca.to_str().unwrap()].into_iter().chain(pins).collect();
        plan(&tree, &url, &options)
    };
    let other = "sha256//AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let refused = with_pins(&[other]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(server.with(|state| state.requests.len()), 0, "credentials must not be sent");
    let found = refused.stderr.split_whitespace().find(|word| word.starts_with("sha256//")).unwrap();
    let found = found.trim_end_matches(',');
    assert_eq!(with_pins(&[other, found]).code, Some(0));
}

#[test]
fn client_identifies_by_certificate_or_token() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create(directory.path());
    let server = HttpsServer::start_for_certified_clients(&authority, &config("served").to_string());
    let (certificate, key) = authority.client();
    let (tree, url, ca) = (Tree::new(), server.url(PATH), authority.ca());
    let ca = ["--server-ca", ca.to_str().unwrap()];
    assert_ne!(plan(&tree, &url, &ca).code, Some(0));
    let identity =
        ["--client-certificate", certificate.to_str().unwrap(), "--client-key", key.to_str().unwrap()];
    let planned = plan(&tree, &url, &[&ca[..], &identity].concat());
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let half = plan(&tree, &url, &[&ca[..], &identity[..2]].concat());
    assert!(half.stderr.contains("belong together"), "{half:?}");

    let server = HttpsServer::start(&authority, ServerCertificate::Valid, &config("served").to_string());
    server.with(|state| state.token = Some("very-secret".to_owned()));
    let token = directory.path().join("token");
    fs::write(&token, "very-secret\n").unwrap();
    let refused = plan(&tree, &server.url(PATH), &ca);
    assert!(refused.stderr.contains("status 401: it wants other credentials"), "{refused:?}");
    let planned =
        plan(&tree, &server.url(PATH), &[&ca[..], &["--token-file", token.to_str().unwrap()]].concat());
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(!format!("{refused:?}{planned:?}").contains("very-secret"));
}

#[test]
fn redirection_is_followed_on_the_same_server_only() {
    let (directory, authority, server) = server();
    let other = HttpsServer::start(&authority, ServerCertificate::Valid, "{}");
    let token = directory.path().join("token");
    fs::write(&token, "very-secret").unwrap();
    for (to, expected) in [
        ("/elsewhere".to_owned(), None),
        (server.url("/elsewhere"), None),
        (other.url(PATH), Some(format!("redirects to {}; if that is intended", other.url(PATH)))),
        (
            "http://127.0.0.1/config".to_owned(),
            Some("redirects to an address that cannot be used: only https://".to_owned()),
        ),
        (PATH.to_owned(), Some("more than 3 redirections in a row".to_owned())),
    ] {
        server.with(|state| {
            state.answers = [(PATH.to_owned(), ServerAnswer::Redirect(to.clone()))].into();
        });
        let ca = authority.ca();
        let options = ["--server-ca", ca.to_str().unwrap(), "--token-file", token.to_str().unwrap()];
        let planned = plan(&Tree::new(), &server.url(PATH), &options);
        match expected {
            None => assert_eq!(planned.code, Some(0), "{to}: {planned:?}"),
            Some(reason) => assert!(planned.stderr.contains(&reason), "{to}: {planned:?}"),
        }
    }
    assert_eq!(other.with(|state| state.requests.len()), 0, "the token belongs to one server");
}

#[test]
fn hostile_answer_ends_the_command_and_changes_nothing() {
    let (_directory, authority, server) = server();
    let (tree, url, ca) = (Tree::new(), server.url(PATH), authority.ca());
    for (answer, code, mentions) in [
        (ServerAnswer::Truncated, 75, "is incomplete or not HTTP"),
        (ServerAnswer::CutOff, 75, "is incomplete or not HTTP"),
        (ServerAnswer::Noise, 75, "is incomplete or not HTTP"),
        (ServerAnswer::Closed, 75, "cannot be reached"),
        (ServerAnswer::Endless, 1, "has more than 16777216 bytes, the limit of a config"),
        (ServerAnswer::TooLong, 1, "has more than 16777216 bytes, the limit of a config"),
        (ServerAnswer::Status(304, None), 1, "answers with status 304"),
        (ServerAnswer::Status(403, None), 1, "it wants other credentials"),
        (ServerAnswer::Status(404, None), 1, "it has no such document"),
        (ServerAnswer::Status(500, None), 1, "for a pool that it does not know"),
        (ServerAnswer::Status(503, Some(30)), 75, "it is overloaded"),
        (ServerAnswer::Status(204, None), 1, "answers with status 204"),
    ] {
        server.with(|state| state.answer = answer.clone());
        let root = tree.root().to_str().unwrap();
        let outcome =
            flameholder(["apply", "--root", root, "--desired", &url, "--server-ca", ca.to_str().unwrap()]);
        assert_eq!(outcome.code, Some(code), "{answer:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains(mentions) && outcome.stderr.contains("127.0.0.1"),
            "{answer:?}: {outcome:?}"
        );
        assert!(outcome.stderr.len() < 600, "{answer:?}: {outcome:?}");
    }
    server.with(|state| state.answer = ServerAnswer::Document);
    for (document, mentions) in [
        ("", "the document is empty"),
        ("<html>", "kind"),
        ("{\"ignition\": {\"version\": \"9.0.0\"}}", "9.0.0"),
    ] {
        server.with(|state| state.document = document.as_bytes().to_vec());
        let refused = plan_with_ca(&authority, &url);
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.stderr.contains(mentions) && refused.stderr.contains(&url), "{refused:?}");
    }
    assert!(!tree.root().join("etc/app.conf").exists());
}

#[test]
fn unusable_address_is_wrong_usage() {
    for (url, mentions) in [
        ("http://127.0.0.1:1/config/worker", "only https:// is supported"),
        ("https://user:very-secret@127.0.0.1:1/config", "a user name or password in the URL"),
        ("https://127.0.0.1:1/config?token=very-secret", "name the document by its path"),
    ] {
        let refused = plan(&Tree::new(), url, &[]);
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert!(refused.stderr.contains(mentions) && !refused.stderr.contains("very-secret"), "{refused:?}");
    }
    let rendered = flameholder(["render", "https://127.0.0.1:1/config"]);
    assert!(rendered.stderr.contains("only `--desired` takes a URL"), "{rendered:?}");
}

/// Fetch with a short limit.
fn fetched(
    url: &str,
    ca: PathBuf,
    known: &DocumentVersion,
) -> (Result<DocumentAnswer, HttpsError>, Duration) {
    let access = ServerAccess { ca: Some(ca), ..ServerAccess::default() };
    let request = DocumentRequest { url: url.parse().unwrap(), access, limit: SHORT_LIMIT };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let began = std::time::Instant::now();
    (runtime.block_on(fetch(&request, known)), began.elapsed())
}

#[test]
fn stalled_answer_ends_at_the_limit() {
    let (_directory, authority, server) = server();
    server.with(|state| state.answer = ServerAnswer::Stalled);
    let (answer, elapsed) = fetched(&server.url(PATH), authority.ca(), &DocumentVersion::default());
    assert!(matches!(answer, Err(HttpsError::TimedOut { .. })), "{answer:?}");
    assert!(elapsed >= SHORT_LIMIT);
}

#[test]
fn known_version_is_not_sent_again() {
    let (_directory, authority, server) = server();
    server.with(|state| state.etag = Some("one".to_owned()));
    let url = server.url(PATH);
    let (answer, _) = fetched(&url, authority.ca(), &DocumentVersion::default());
    let Ok(DocumentAnswer::Document { version, .. }) = answer else { panic!("{answer:?}") };
    let (answer, _) = fetched(&url, authority.ca(), &version);
    assert!(matches!(answer, Ok(DocumentAnswer::Unchanged)), "{answer:?}");
    server.with(|state| state.etag = Some("two".to_owned()));
    let (answer, _) = fetched(&url, authority.ca(), &version);
    assert!(matches!(answer, Ok(DocumentAnswer::Document { .. })), "{answer:?}");
}
