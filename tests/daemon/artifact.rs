//! Daemon with an artifact in a registry as source.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use osimage::{ArtifactLayout, ImageRegistry, Os, RegistryAnswers};
use serde_json::{Value, json};
use testbed::agent::Agent;
use testbed::booted::host::{Host, WORKER};
use testbed::dbus::fake_logind::Script;
use testbed::https_server::{Authority, HttpsServer, ServerAnswer, ServerCertificate};

use crate::directory::daemon_report;
use crate::remote_contents::{CA, CACHE, FILE, hash};

/// Butane config of a file whose change needs no reboot, with its contents in a local file.
const MOTD: &str = "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/nmstate/openshift/app.yml\n      \
    overwrite: true\n      contents:\n        local: files/app.yml\n";
const TAG: &str = ":stable";

/// Host that may read a registry without TLS, and the layout that the registry serves.
struct Fleet {
    host: Host,
    layout: ArtifactLayout,
    registry: Option<ImageRegistry>,
    address: std::net::SocketAddr,
}

impl Fleet {
    /// Serve an artifact with the live config `one`, which the host has already.
    fn new() -> Self {
        let host = Host::install(Os::new(1));
        let layout = ArtifactLayout::create(&host.path("media/layout")).unwrap();
        let registry = ImageRegistry::start(RegistryAnswers::Layout(layout.path().to_owned())).unwrap();
        let address = registry.address();
        let insecure = format!("[[registry]]\nlocation = \"{address}\"\ninsecure = true\n");
        host.write_etc("containers/registries.conf.d/tests.conf", &insecure);
        host.write_etc("containers/policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
        let fleet = Self { host, layout, registry: Some(registry), address };
        fleet.push("one");
        let applied = fleet.host.apply(&fleet.artifact(TAG), None);
        assert_eq!(applied.code, Some(0), "{applied:?}");
        fleet
    }

    fn registry(&self) -> &ImageRegistry {
        self.registry.as_ref().unwrap()
    }

    /// Push an artifact with this text, and return its digest.
    fn push(&self, text: &str) -> String {
        self.layout.push_files(&[("10-app.bu", MOTD), ("files/app.yml", text)]).unwrap()
    }

    fn artifact(&self, version: &str) -> String {
        format!("oci://{}/os{version}", self.address)
    }

    fn start(&self, version: &str) -> Agent {
        Agent::start(&self.host, &["--source", &self.artifact(version), "--poll-interval", "1"])
    }

    fn app(&self) -> Option<String> {
        self.host.read_etc("nmstate/openshift/app.yml")
    }

    /// Wait until the tag was asked for twice more: the first request may have been under way.
    fn wait_for_polls(&self) {
        let registry = self.registry();
        registry.wait_for_manifests(registry.manifests() + 2);
    }

    fn report(&self) -> Value {
        daemon_report(&self.host)
    }
}

/// Butane config of that file with its contents at a URL, and of another one in a config that it merges.
fn config_with_url(url: &str, hash: &str) -> String {
    let file = json!({"path": "/etc/nmstate/openshift/other.yml", "mode": 420, "contents": {"source": "data:,other"}});
    let merged = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}});
    let file = json!({"path": FILE, "overwrite": true,
        "contents": {"source": url, "verification": {"hash": hash}}});
    // JSON is YAML.
    json!({"variant": "fcos", "version": "1.5.0", "storage": {"files": [file]},
        "ignition": {"config": {"merge": [{"inline": merged.to_string()}]}}})
    .to_string()
}

/// Executables of the process and its descendants.
fn programs_of(pid: i32) -> Vec<PathBuf> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below = children.split_whitespace().flat_map(|child| programs_of(child.parse().unwrap()));
    fs::read_link(format!("/proc/{pid}/exe")).into_iter().chain(below).collect()
}

#[test]
fn moved_tag_is_applied_and_an_unchanged_one_costs_no_blob() {
    let fleet = Fleet::new();
    let mut agent = fleet.start(TAG);
    agent.wait_for_line("Done rendered-local-");
    let before = fleet.registry().blobs();
    fleet.wait_for_polls();
    assert_eq!(fleet.registry().blobs(), before);
    let digest = fleet.push("two");
    agent.wait_for_text(&format!("the artifact {digest}"));
    agent.wait_for_line("Applying");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(fleet.app().as_deref(), Some("two"));
    assert_eq!(fleet.report()["source"], fleet.artifact(TAG));
    assert_eq!(fleet.report()["sourceDigest"], digest);
    let status = fleet.host.run_ok(["flameholder", "status"]);
    assert!(status.contains(&format!("{} ({digest})", fleet.artifact(TAG))), "{status}");
    assert_eq!(fleet.report()["sourceError"], Value::Null);
    fleet.host.assert_no_drift();
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn pinned_artifact_is_not_asked_for_again_and_leaves_no_process() {
    let fleet = Fleet::new();
    let digest = fleet.push("two");
    let mut agent = fleet.start(&format!("@{digest}"));
    agent.wait_for_text(&format!("the artifact {digest}"));
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(fleet.app().as_deref(), Some("two"));
    let asked = fleet.registry().manifests();
    // The daemon answers, and looks at the host, without the registry.
    fleet.host.write_etc("nmstate/openshift/app.yml", "changed");
    agent.wait_for_line("Drifted rendered-local-");
    assert_eq!(fleet.registry().manifests(), asked);
    let programs = programs_of(agent.pid());
    let is_of_worker = |path: &PathBuf| path.ends_with(WORKER) || path.ends_with("skopeo");
    assert!(!programs.is_empty() && !programs.iter().any(is_of_worker), "{programs:?}");
}

#[test]
fn registry_that_is_away_is_asked_until_it_is_back() {
    let mut fleet = Fleet::new();
    let mut agent = fleet.start(TAG);
    agent.wait_for_line("Done rendered-local-");
    fleet.registry = None;
    let warning = agent.wait_for_line("warning: ");
    let words = ["the registry cannot be reached", &fleet.artifact(TAG)].map(|words| warning.contains(words));
    assert_eq!(words, [true, true], "{warning}");
    // The line that follows the report.
    agent.wait_for_line("Done");
    assert_eq!((fleet.report()["phase"].as_str(), fleet.app().as_deref()), (Some("Done"), Some("one")));
    fleet.push("two");
    let answers = RegistryAnswers::Layout(fleet.layout.path().to_owned());
    fleet.registry = Some(ImageRegistry::start_at(fleet.address, answers).unwrap());
    agent.wait_for_line("Applying");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(fleet.app().as_deref(), Some("two"));
    assert_eq!(fleet.report()["sourceError"], Value::Null);
}

#[test]
fn refused_artifact_changes_nothing_and_is_not_fetched_again() {
    let fleet = Fleet::new();
    let mut agent = fleet.start(TAG);
    agent.wait_for_line("Done rendered-local-");
    let mut link = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    link.append_link(&mut header, "10-app.bu", "/etc/shadow").unwrap();
    let link = fleet.layout.layer(osimage::TAR, &link.into_inner().unwrap()).unwrap();
    fleet.layout.push(&[link]).unwrap();
    let warning = agent.wait_for_line("warning: ");
    assert!(
        warning.contains("\"10-app.bu\" is a symbolic link") && warning.contains("push it again"),
        "{warning}"
    );
    let before = fleet.registry().blobs();
    fleet.wait_for_polls();
    assert_eq!(fleet.registry().blobs(), before);
    for (files, words) in [
        (&[("10-app.bu", "variant: fcos\nversion: 1.5.0\nstorage: 1\n")][..], "10-app.bu:3"),
        (&[("readme.md", "text")], "holds no config"),
    ] {
        fleet.layout.push_files(files).unwrap();
        let warning = agent.wait_for_line("warning: ");
        assert!(warning.contains(words) && warning.contains(&fleet.artifact(TAG)), "{warning}");
    }
    assert_eq!(fleet.app().as_deref(), Some("one"));
    fleet.push("two");
    agent.wait_for_line("Applying");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(fleet.app().as_deref(), Some("two"));
}

#[test]
fn artifact_without_the_required_signature_is_refused_with_the_way_out() {
    let fleet = Fleet::new();
    fleet.push("two");
    fleet.host.write_etc("flameholder/config.d/10-image.toml", "[image]\nsignature = \"required\"\n");
    let mut agent = fleet.start(TAG);
    let warning = agent.wait_for_line("warning: ");
    for words in [
        "`image.signature` requires a signature",
        "add a rule for its repository",
        "default, demands nothing",
    ] {
        assert!(warning.contains(words), "{warning}");
    }
    assert_eq!(fleet.app().as_deref(), Some("one"));
    assert!(!agent.output().contains("Applying"));
    // A rule that demands one, of which this artifact has none.
    let rule = json!({"default": [{"type": "reject"}]});
    fleet.host.write_etc("containers/policy.json", &rule.to_string());
    let warning = agent.wait_for_line("warning: ");
    assert!(warning.contains("policy.json"), "{warning}");
    assert_eq!(fleet.app().as_deref(), Some("one"));
}

#[test]
fn commands_take_an_artifact_like_the_daemon() {
    let fleet = Fleet::new();
    fleet.push("two");
    let artifact = fleet.artifact(TAG);
    let run = |arguments: &[&str]| fleet.host.run([&["flameholder"], arguments].concat());
    let planned = run(&["plan", "--desired", &artifact, "--exit-code"]);
    assert_eq!(planned.code, Some(2), "{planned:?}");
    assert!(planned.stdout.contains("/etc/nmstate/openshift/app.yml"), "{planned:?}");
    let rendered = run(&["render", "--pool", "edge", &artifact]);
    let rendered: Value = serde_json::from_str(&rendered.stdout).unwrap();
    assert!(rendered["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("rendered-edge-")));
    fleet.layout.push_files(&[("10-app.bu", "variant: fcos\nversion: 1.5.0\nstorage: 1\n")]).unwrap();
    for command in [&["plan", "--desired", &artifact][..], &["render", &artifact]] {
        let refused = run(command);
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.stderr.contains(&format!("{artifact}: 10-app.bu:3")), "{refused:?}");
    }
    let given = run(&["plan", "--desired", &format!("oci://user:very-secret@{}/os:stable", fleet.address)]);
    assert_eq!((given.code, given.stderr.contains("very-secret")), (Some(64), false), "{given:?}");
    fleet.push("two");
    let current = run(&["plan", "--current", &artifact, "--desired", &artifact]);
    assert!(current.stderr.contains("only `--desired` takes a URL"), "{current:?}");
}

#[test]
fn contents_that_a_document_names_are_fetched_until_they_are_there_and_its_artifact_once() {
    let fleet = Fleet::new();
    let authority = Authority::create(&fleet.host.path("media"));
    let server = HttpsServer::start(&authority, ServerCertificate::Valid, "two");
    server.with(|state| state.answer = ServerAnswer::Status(404, None));
    let arguments = ["--source", &fleet.artifact(TAG), "--poll-interval", "1"];
    let environment = [("SSL_CERT_FILE", CA)];
    let mut agent = Agent::start_with_environment(&fleet.host, &arguments, Script::default(), &environment);
    agent.wait_for_line("Done rendered-local-");
    let config = config_with_url(&server.url("/app.yml?signature=very-secret"), &hash("two"));
    let digest = fleet.layout.push_files(&[("10-app.bu", &config)]).unwrap();
    let warning = agent.wait_for_line("warning: ");
    let url = server.url("/app.yml");
    let expected =
        format!("the contents of {FILE} cannot be fetched from {url}: {url} answers with status 404");
    assert!(warning.contains(&expected), "{warning}");
    // Nothing of the artifact is applied, or fetched again, while its contents are missing.
    let blobs = fleet.registry().blobs();
    server.wait_for_requests(server.with(|state| state.requests.len()) + 1);
    assert_eq!(fleet.app().as_deref(), Some("one"));
    server.with(|state| state.answer = ServerAnswer::Document);
    agent.wait_for_text(&format!("the artifact {digest}"));
    agent.wait_for_line("Applying");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!((fleet.app().as_deref(), fleet.registry().blobs()), (Some("two"), blobs));
    assert_eq!(fleet.host.read_etc("nmstate/openshift/other.yml").as_deref(), Some("other"));
    let report = fleet.report();
    assert_eq!((&report["sourceDigest"], &report["sourceError"]), (&json!(digest), &Value::Null));
    fleet.host.assert_no_drift();
    // Commands need no server then.
    server.with(|state| state.answer = ServerAnswer::Closed);
    let artifact = fleet.artifact(TAG);
    let planned = fleet.host.run(["flameholder", "plan", "--desired", &artifact, "--exit-code"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let rendered = fleet.host.run_ok(["flameholder", "render", &artifact]);
    assert!(rendered.contains("data:") && !rendered.contains("very-secret"), "{rendered}");
    // The artifact of the current config is kept until another one is applied.
    for (text, kept) in [("three", 1), ("four", 0)] {
        fleet.push(text);
        agent.wait_for_line("Applying");
        agent.wait_for_line("Done rendered-local-");
        assert_eq!(fs::read_dir(fleet.host.var(CACHE)).unwrap().count(), kept, "{text}");
    }
    assert!(!agent.output().contains("very-secret"));
}
