//! Artifacts of configs from a registry, which may be hostile.

use flameholder::core::config::artifact::{ArtifactRef, PulledArtifact};
use flameholder::os::worker::{IMAGE_SIGNATURE, WorkerProgram, WorkerSession};
use flameholder::os::{OsError, PullFailure};
use osimage::{ImageRegistry, RegistryAnswers, TAR};
use serde_json::{Value, json};
use testbed::worker::program;

use super::artifact_shelf::{ArtifactShelf, archive, gzip};

impl ArtifactShelf {
    fn worker(&self) -> WorkerProgram {
        program().with_env("HOME", self.home())
    }

    fn pull(&self, artifact: &ArtifactRef) -> Result<PulledArtifact, OsError> {
        WorkerSession::pull_artifact(&self.worker(), artifact, None).map(Option::unwrap)
    }

    /// Pull the artifact of the tag, and return the error.
    fn refusal(&self) -> OsError {
        let registry = self.serve();
        self.pull(&at(&registry, ":stable")).unwrap_err()
    }

    /// Push these layers, and return the reason why they are refused.
    fn refused_layers(&self, layers: &[Value]) -> String {
        let pushed = self.layout.push(layers).unwrap();
        let error = self.refusal();
        let OsError::ArtifactRefused { artifact, digest, source } = error else { panic!("{error}") };
        assert!(artifact.starts_with("oci://127.0.0.1:") && artifact.ends_with("/os:stable"), "{artifact}");
        assert_eq!(digest, Some(pushed));
        source.to_string()
    }
}

fn at(registry: &ImageRegistry, version: &str) -> ArtifactRef {
    format!("oci://{}/os{version}", registry.address()).parse().unwrap()
}

fn contents(artifact: PulledArtifact) -> Vec<(String, bool, String)> {
    let files = artifact.files.into_files();
    files.map(|file| (file.path, file.is_executable, String::from_utf8(file.contents).unwrap())).collect()
}

fn failure(error: OsError) -> (PullFailure, String) {
    let OsError::Pull { image, reason, source } = error else { panic!("{error}") };
    assert!(image.starts_with("oci://"), "{image}");
    (reason, source.to_string())
}

#[test]
fn files_of_both_forms_arrive_with_the_digest_of_the_manifest() {
    use tar::EntryType::{Directory, Regular};
    let shelf = ArtifactShelf::new();
    let pushed = shelf.layout.push_files(&[("20-b.bu", "b"), ("files/motd", "hello")]).unwrap();
    let registry = shelf.serve();
    let pulled = shelf.pull(&at(&registry, ":stable")).unwrap();
    assert_eq!(pulled.digest, pushed);
    let plain = |path: &str, text: &str| (path.to_owned(), false, text.to_owned());
    assert_eq!(contents(pulled), [plain("20-b.bu", "b"), plain("files/motd", "hello")]);

    let base =
        archive(&[("files", Directory, ""), ("./10-a.bu", Regular, "a"), ("files/run.sh", Regular, "run")]);
    let site = archive(&[("10-a.bu", Regular, "of the site")]);
    let layers = [
        shelf.layout.layer(&format!("{TAR}+gzip"), &gzip(&base)).unwrap(),
        shelf.layout.layer(&format!("{TAR}+zstd"), &zstd::encode_all(site.as_slice(), 0).unwrap()).unwrap(),
    ];
    let pushed = shelf.layout.push(&layers).unwrap();
    let pulled = shelf.pull(&at(&registry, &format!("@{pushed}"))).unwrap();
    assert_eq!(pulled.digest, pushed);
    let program = |path: &str, text: &str| (path.to_owned(), true, text.to_owned());
    assert_eq!(contents(pulled), [program("10-a.bu", "of the site"), program("files/run.sh", "run")]);
}

#[test]
fn known_digest_costs_the_manifest_alone() {
    let shelf = ArtifactShelf::new();
    let pushed = shelf.layout.push_files(&[("a.bu", "a")]).unwrap();
    let registry = shelf.serve();
    let pull =
        || WorkerSession::pull_artifact(&shelf.worker(), &at(&registry, ":stable"), Some(&pushed)).unwrap();
    assert_eq!(pull(), None);
    assert_eq!((registry.blobs(), registry.manifests() > 0), (vec![], true));
    shelf.layout.push_files(&[("a.bu", "other")]).unwrap();
    assert_ne!(pull().unwrap().digest, pushed);
    assert_eq!(registry.blobs().len(), 1);
}

#[test]
fn tag_that_moves_during_the_pull_gives_the_artifact_of_its_first_answer() {
    let shelf = ArtifactShelf::new();
    let later = shelf.layout.push_files(&[("a.bu", "later"), ("b.bu", "later")]).unwrap();
    let first = shelf.layout.push_files(&[("a.bu", "first"), ("c.bu", "first")]).unwrap();
    let registry = shelf.serve_as(RegistryAnswers::Moving(shelf.layout.path().to_owned(), later));
    let pulled = shelf.pull(&at(&registry, ":stable")).unwrap();
    assert_eq!(pulled.digest, first);
    assert!(contents(pulled).iter().all(|(_, _, text)| text == "first"));
}

#[test]
fn manifest_of_the_host_is_chosen_from_a_list() {
    let shelf = ArtifactShelf::new();
    let other = shelf.layout.push_files(&[("a.bu", "of another architecture")]).unwrap();
    let own = shelf.layout.push_files(&[("a.bu", "own")]).unwrap();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    shelf.layout.push_index(&[("s390x", &other), (architecture, &own)]).unwrap();
    let registry = shelf.serve();
    assert_eq!(shelf.pull(&at(&registry, ":stable")).unwrap().digest, own);
    shelf.layout.push_index(&[("s390x", &other)]).unwrap();
    let (_, cause) = failure(shelf.pull(&at(&registry, ":stable")).unwrap_err());
    assert!(cause.contains(architecture), "{cause}");
}

#[test]
fn hostile_layer_is_refused_by_its_fault() {
    use tar::EntryType::{Regular, Symlink};
    let shelf = ArtifactShelf::new();
    let layer = |media_type: &str, bytes: &[u8]| shelf.layout.layer(media_type, bytes).unwrap();
    let titled = |title: &str| {
        let mut layer = layer(TAR, title.as_bytes());
        layer["annotations"] = json!({"org.opencontainers.image.title": title});
        layer
    };
    let link = archive(&[("a.bu", Symlink, "/etc/shadow")]);
    let packed = gzip(&archive(&[("a.bu", Regular, "a")]));
    let (gzipped, truncated) = (format!("{TAR}+gzip"), &packed[..packed.len() - 6]);
    let bomb = gzip(&vec![0; 150 << 20]);
    let chart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let mut large = titled("a.bu");
    large["size"] = json!(1_u64 << 40);
    for (layers, words) in [
        (vec![layer(TAR, &link)], "\"a.bu\" is a symbolic link"),
        (vec![titled("a.bu"), titled("./a.bu")], "\"a.bu\" is there twice"),
        (vec![titled("../../etc/cron.d/a.bu")], "leads out of the artifact"),
        (vec![layer(&gzipped, truncated)], "the archive in its layer 1 is damaged"),
        (vec![layer(&gzipped, &bomb)], "more than 67108864 bytes"),
        (vec![layer(chart, &packed)], chart),
        (vec![large], "more than 67108864 bytes"),
        (vec![], "no layers"),
    ] {
        let refused = shelf.refused_layers(&layers);
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn content_that_does_not_match_its_digest_is_refused() {
    let shelf = ArtifactShelf::new();
    let pushed = shelf.layout.push_files(&[("a.bu", "contents")]).unwrap();
    let layer = shelf.layout.layer(TAR, b"contents").unwrap();
    for forged in ["CONTENTS", "contents and more", "short", ""] {
        shelf.layout.forge(layer["digest"].as_str().unwrap(), forged.as_bytes()).unwrap();
        let error = shelf.refusal();
        let (reason, cause) = failure(error);
        eprintln!("{forged}: {reason:?}: {cause}");
        assert_eq!(reason, PullFailure::Corrupt, "{forged}: {cause}");
    }
    // A manifest in place of the one that a reference pins.
    shelf.layout.push_files(&[("a.bu", "other")]).unwrap();
    let index: Value =
        serde_json::from_slice(&std::fs::read(shelf.layout.path().join("index.json")).unwrap()).unwrap();
    let other = index["manifests"][0]["digest"].as_str().unwrap().replace(':', "/");
    let other = std::fs::read(shelf.layout.path().join("blobs").join(other)).unwrap();
    shelf.layout.forge(&pushed, &other).unwrap();
    let registry = shelf.serve();
    let (reason, cause) = failure(shelf.pull(&at(&registry, &format!("@{pushed}"))).unwrap_err());
    assert_eq!((reason, registry.blobs()), (PullFailure::Corrupt, vec![]), "{cause}");
}

#[test]
fn absent_tag_registry_and_credentials_are_told_apart() {
    let shelf = ArtifactShelf::new();
    let registry = shelf.serve();
    let artifact = at(&registry, ":stable");
    assert_eq!(failure(shelf.pull(&artifact).unwrap_err()).0, PullFailure::NotFound);
    drop(registry);
    let (reason, cause) = failure(shelf.pull(&artifact).unwrap_err());
    assert_eq!(reason, PullFailure::Unreachable, "{cause}");
    let answer = r#"{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}"#;
    let registry = shelf.serve_as(RegistryAnswers::Status("401 Unauthorized", answer));
    let (reason, cause) = failure(shelf.pull(&at(&registry, ":stable")).unwrap_err());
    assert_eq!(reason, PullFailure::Denied, "{cause}");
}

#[test]
fn required_signature_keeps_an_artifact_away_for_which_no_rule_demands_one() {
    let shelf = ArtifactShelf::new();
    shelf.layout.push_files(&[("a.bu", "a")]).unwrap();
    let registry = shelf.serve();
    let worker = shelf.worker().with_env(IMAGE_SIGNATURE, "required");
    let pulled = WorkerSession::pull_artifact(&worker, &at(&registry, ":stable"), None);
    // The host of the tests has the policy of its distribution, which demands none.
    assert_eq!(failure(pulled.unwrap_err()).0, PullFailure::SignatureNotDemanded);
    assert_eq!((registry.manifests(), registry.blobs()), (0, vec![]));
}
