//! Commands with a config that names contents by URL and hash, on servers that may be hostile.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};
use tempfile::TempDir;
use testbed::https_server::{Authority, HttpsServer, ServerAnswer, ServerCertificate};
use testbed::model::run::{Outcome, launch, program};
use testbed::model::tree::Tree;

const TOOL: &str = "#!/bin/sh\necho tool\n";
/// Path and query: a query can be a signature.
const SIGNED: &str = "/tool?signature=very-secret";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha512(contents: &[u8]) -> String {
    format!("sha512-{}", hex(&Sha512::digest(contents)))
}

fn sha256(contents: &[u8]) -> String {
    format!("sha256-{}", hex(&Sha256::digest(contents)))
}

fn gzip(contents: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(contents).unwrap();
    encoder.finish().unwrap()
}

/// Server of the tool with a CA, which is that of the system for commands that [`Site::run`] runs.
struct Site {
    directory: TempDir,
    authority: Authority,
    server: HttpsServer,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::create(directory.path());
        let server = HttpsServer::start(&authority, ServerCertificate::Valid, TOOL);
        Self { directory, authority, server }
    }

    fn write(&self, document: &Value) -> PathBuf {
        let path = self.directory.path().join("desired.ign");
        fs::write(&path, document.to_string()).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let ca = format!("SSL_CERT_FILE={}", self.authority.ca().display());
        let program = program();
        launch("env", [&[ca.as_str(), &program], arguments].concat())
    }

    fn plan(&self, document: &Value) -> Outcome {
        let (tree, desired) = (Tree::new(), self.write(document));
        let root = tree.root().to_str().unwrap();
        self.run(&["plan", "--root", root, "--desired", desired.to_str().unwrap()])
    }
}

/// Config with a file at `/etc/tool` with these contents.
fn config(contents: &Value) -> Value {
    json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [
        {"path": "/etc/tool", "mode": 493, "contents": contents}]}})
}

fn remote(url: &str, hash: &str) -> Value {
    json!({"source": url, "verification": {"hash": hash}})
}

#[test]
fn contents_are_fetched_before_the_change_and_are_part_of_its_generation() {
    testbed::preconditions::require_root();
    let site = Site::new();
    let url = site.server.url(SIGNED);
    let mut document = config(&remote(&url, &sha512(TOOL.as_bytes())));
    site.server.with(|state| {
        state.documents.insert("/part.gz".to_owned(), gzip(b"part"));
    });
    let mut part = remote(&site.server.url("/part.gz"), &sha256(b"part"));
    part["compression"] = json!("gzip");
    let files = document["storage"]["files"].as_array_mut().unwrap();
    files.push(json!({"path": "/etc/parts", "append": [{"source": "data:,first%0A"}, part]}));
    let (tree, desired) = (Tree::new(), site.write(&document));
    let (root, desired) = (tree.root().to_str().unwrap(), desired.to_str().unwrap());
    let applied = site.run(&["apply", "--root", root, "--desired", desired]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let read = |path: &str| fs::read_to_string(tree.root().join(path)).unwrap();
    assert_eq!((read("etc/tool").as_str(), read("etc/parts").ends_with("first\npart")), (TOOL, true));
    let current = read("etc/machine-config-daemon/currentconfig");
    assert!(current.contains("data:;base64,") && !current.contains(&site.server.url("")), "{current}");
    assert!(!current.contains("very-secret") && !format!("{applied:?}").contains("very-secret"));
    let heads = site.server.with(|state| state.requests.clone());
    assert!(heads.iter().any(|head| head.starts_with(&format!("get {SIGNED} http/1.1"))), "{heads:?}");
    // The generation needs no server: it has the contents itself.
    site.server.with(|state| state.answer = ServerAnswer::Closed);
    fs::write(tree.root().join("etc/tool"), "changed").unwrap();
    let recorded = site.directory.path().join("recorded.json");
    fs::write(&recorded, current).unwrap();
    let repaired = site.run(&["apply", "--root", root, "--desired", recorded.to_str().unwrap()]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert_eq!(read("etc/tool"), TOOL);
}

#[test]
fn merged_config_and_its_contents_are_fetched() {
    let site = Site::new();
    let child = config(&remote(&site.server.url(SIGNED), &sha512(TOOL.as_bytes()))).to_string();
    site.server.with(|state| {
        state.documents.insert("/child.ign".to_owned(), child.clone().into_bytes());
    });
    let mut outer = config(&json!({"source": "data:,outer"}));
    let merged = remote(&site.server.url("/child.ign"), &sha512(child.as_bytes()));
    outer["ignition"]["config"] = json!({"merge": [merged]});
    let planned = site.plan(&outer);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let line = format!("+ /etc/tool  0755, {} bytes", TOOL.len());
    assert!(planned.stdout.contains(&line), "{planned:?}");
    // Its problems are named by its place in the document.
    let child = config(&json!({"source": "ftp://host/tool"})).to_string();
    outer["ignition"]["config"]["merge"][0]["verification"]["hash"] = json!(sha256(child.as_bytes()));
    site.server.with(|state| {
        state.documents.insert("/child.ign".to_owned(), child.into_bytes());
    });
    let refused = site.plan(&outer);
    assert_eq!(refused.code, Some(78), "{refused:?}");
    let field = "spec.config.ignition.config.merge[0].storage.files[0].contents.source: contents from `ftp:`";
    assert!(refused.stderr.contains(field), "{refused:?}");
}

#[test]
fn hostile_server_is_named_with_the_file_and_changes_nothing() {
    let site = Site::new();
    let url = site.server.url(SIGNED);
    let shown = site.server.url("/tool");
    let document = config(&remote(&url, &sha512(TOOL.as_bytes())));
    let redirect = |to: &str| ServerAnswer::Redirect(to.to_owned());
    for (answer, code, mentions) in [
        (ServerAnswer::Closed, 75, "cannot be reached"),
        (ServerAnswer::Truncated, 75, "is incomplete"),
        (ServerAnswer::Noise, 75, "not HTTP"),
        (ServerAnswer::Status(403, None), 1, "status 403"),
        (ServerAnswer::Status(503, Some(5)), 75, "status 503"),
        (ServerAnswer::TooLong, 1, "has more than 12582912 bytes"),
        (ServerAnswer::Endless, 1, "has more than 12582912 bytes"),
        (redirect(SIGNED), 75, "more than 5 redirections in a row"),
        (redirect("http://127.0.0.1/very-secret"), 1, "from https:// to http://"),
        (redirect("file:///etc/shadow"), 1, "redirects to an address that cannot be used"),
    ] {
        site.server.with(|state| state.answer = answer.clone());
        let refused = site.plan(&document);
        assert_eq!(refused.code, Some(code), "{answer:?}: {refused:?}");
        let stderr = &refused.stderr;
        assert!(stderr.contains(mentions) && stderr.contains("/etc/tool"), "{answer:?}: {stderr}");
        assert!(stderr.contains(&shown) && !stderr.contains("very-secret"), "{answer:?}: {stderr}");
    }
    // OpenSSL does not tell that the connection was cut off; the hash does.
    site.server.with(|state| state.answer = ServerAnswer::CutOff);
    let refused = site.plan(&document);
    assert!([Some(75), Some(78)].contains(&refused.code), "{refused:?}");
    site.server.with(|state| state.answer = ServerAnswer::Document);
    let (wrong, right) = (sha512(b"other"), sha512(TOOL.as_bytes()));
    let refused = site.plan(&config(&remote(&url, &wrong)));
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.stderr.contains(&wrong) && refused.stderr.contains(&right), "{refused:?}");
    let mut truncated = gzip(TOOL.as_bytes());
    truncated.truncate(truncated.len() / 2);
    let bomb = gzip(&vec![0; 64 << 20]);
    for (sent, mentions) in [(truncated, "not valid gzip"), (bomb, "exceed")] {
        site.server.with(|state| state.document = sent);
        let mut contents = remote(&url, &right);
        contents["compression"] = json!("gzip");
        let refused = site.plan(&config(&contents));
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.stderr.contains(mentions) && refused.stderr.contains("/etc/tool"), "{refused:?}");
    }
}

#[test]
fn certificate_of_the_contents_server_is_checked_with_the_cas_of_the_system() {
    let site = Site::new();
    let document = config(&remote(&site.server.url(SIGNED), &sha512(TOOL.as_bytes())));
    let (tree, desired) = (Tree::new(), site.write(&document));
    let (root, ca) = (tree.root().to_str().unwrap(), site.authority.ca());
    let arguments = ["plan", "--root", root, "--desired", desired.to_str().unwrap(), "--server-ca"];
    // The option is for the server of the config alone.
    let refused = testbed::model::run::flameholder([&arguments[..], &[ca.to_str().unwrap()]].concat());
    assert!(![Some(0), Some(78)].contains(&refused.code), "{refused:?}");
    assert_eq!(site.server.with(|state| state.requests.len()), 0);
}

#[test]
fn redirection_to_another_server_is_followed_and_no_credentials_are_sent() {
    let site = Site::new();
    let other = HttpsServer::start(&site.authority, ServerCertificate::Valid, TOOL);
    let to = other.url("/real?token=very-secret");
    site.server.with(|state| state.answer = ServerAnswer::Redirect(to));
    let document = config(&remote(&site.server.url(SIGNED), &sha512(TOOL.as_bytes())));
    let token = site.directory.path().join("token");
    fs::write(&token, "very-secret-token").unwrap();
    let (tree, desired) = (Tree::new(), site.write(&document));
    let root = tree.root().to_str().unwrap();
    let arguments = [
        "plan",
        "--root",
        root,
        "--desired",
        desired.to_str().unwrap(),
        "--token-file",
        token.to_str().unwrap(),
    ];
    let planned = site.run(&arguments);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    for server in [&site.server, &other] {
        let heads = server.with(|state| state.requests.clone());
        assert_eq!(heads.len(), 1, "{heads:?}");
        assert!(!heads[0].contains("authorization") && !heads[0].contains("token\r\n"), "{heads:?}");
    }
}

/// Serve the tool once without TLS.
fn plain_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{TOOL}", TOOL.len());
        stream.write_all(answer.as_bytes()).unwrap();
    });
    format!("http://{address}/tool")
}

#[test]
fn contents_without_tls_are_protected_by_their_hash() {
    let site = Site::new();
    let planned = site.plan(&config(&remote(&plain_server(), &sha512(TOOL.as_bytes()))));
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let refused = site.plan(&config(&remote(&plain_server(), &sha512(b"other"))));
    assert_eq!(refused.code, Some(78), "{refused:?}");
}

#[test]
fn unprivileged_user_renders_and_plans() {
    testbed::preconditions::require_root();
    testbed::preconditions::require_installed(&["setpriv"]);
    let site = Site::new();
    let document = config(&remote(&site.server.url(SIGNED), &sha512(TOOL.as_bytes())));
    let desired = site.write(&document);
    let open = |path: &Path, mode: u32| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(site.directory.path(), 0o755);
    open(&site.authority.ca(), 0o644);
    // A copy, because the folders above the build may be closed to other users.
    let copy = site.directory.path().join("flameholder");
    fs::copy(program(), &copy).unwrap();
    let ca = format!("SSL_CERT_FILE={}", site.authority.ca().display());
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", "env", ca.as_str()];
    let (copy, desired) = (copy.to_str().unwrap(), desired.to_str().unwrap());
    let rendered = launch("setpriv", [&user[..], &[copy, "render", "--name", "site", desired]].concat());
    assert_eq!(rendered.code, Some(0), "{rendered:?}");
    let source = serde_json::from_str::<Value>(&rendered.stdout).unwrap();
    let source = source.pointer("/spec/config/storage/files/0/contents/source").cloned().unwrap();
    assert!(source.as_str().unwrap().starts_with("data:;base64,"), "{source}");
    let checked = launch("setpriv", [&user[..], &[copy, "render", "--check", desired]].concat());
    assert_eq!(checked.code, Some(0), "{checked:?}");
}
