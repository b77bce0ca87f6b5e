//! Image imports and their failures.

use std::fs;
use std::path::{Path, PathBuf};

use flameholder::core::values::image::ImageRef;
use flameholder::os::worker::WorkerProgram;
use flameholder::os::{ImportedCommit, OsError, PullFailure, PullPhase, PullProgress, Sysroot as _};
use osimage::{ImageRegistry, Os, RegistryAnswers};
use testbed::worker::{Host, program};

fn import_with(host: &Host, program: &WorkerProgram, image: &ImageRef) -> Result<ImportedCommit, OsError> {
    host.write_with(program).unwrap().import(&image.clone().into(), &mut |_| ())
}

fn failure_with(host: &Host, program: &WorkerProgram, image: &ImageRef) -> PullFailure {
    match import_with(host, program, image) {
        Err(OsError::Pull { reason, source, .. }) => {
            assert!(!source.to_string().is_empty());
            eprintln!("{reason:?}: {source}");
            reason
        }
        other => panic!("{other:?}"),
    }
}

fn failure(host: &Host, image: &ImageRef) -> PullFailure {
    failure_with(host, &program(), image)
}

fn image(text: &str) -> ImageRef {
    text.parse().unwrap()
}

/// The blobs of a layout, the largest first.
fn blobs(layout: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(layout.join("blobs/sha256")).unwrap();
    let mut blobs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    blobs.sort_by_key(|blob| std::cmp::Reverse(fs::metadata(blob).unwrap().len()));
    blobs
}

#[test]
fn import_reports_progress_and_is_not_repeated() {
    let host = Host::new();
    let image = host.image(&Os::new(2), "v2");
    let digest = osimage::write_image(&Os::new(2), &host.path("same"), None).unwrap();
    let mut session = host.write();
    let mut steps: Vec<PullProgress> = Vec::new();
    let first = session.import(&image.clone().into(), &mut |step| steps.push(step)).unwrap();

    assert_eq!(first.manifest_digest.as_deref(), Some(digest.as_str()));
    assert_eq!(first.version, Some(Os::new(2).version()));
    assert!(first.layers_fetched > 1 && first.bytes_fetched > 0, "{first:?}");
    assert_eq!(steps.first().map(|step| step.phase), Some(PullPhase::Manifest));
    let last = steps.last().unwrap();
    assert_eq!((last.phase, last.layers_done, last.bytes_done), (PullPhase::Merge, last.layers, last.bytes));
    assert_eq!(last.layers, first.layers_fetched);
    let sorted = |amounts: Vec<u64>| amounts.is_sorted();
    assert!(sorted(steps.iter().map(|step| step.bytes_done).collect()), "{steps:?}");
    assert!(sorted(steps.iter().map(|step| step.layers_done as u64).collect()), "{steps:?}");

    let again = session.import(&image.clone().into(), &mut |_| ()).unwrap();
    assert_eq!((again.layers_fetched, again.bytes_fetched), (0, 0));
    assert_eq!(again.commit, first.commit);
}

#[test]
fn present_layers_are_not_fetched_again() {
    let host = Host::new();
    let update = host.image(&Os::new(2), "v2");
    let imported = host.write().import(&update.clone().into(), &mut |_| ()).unwrap();
    let manifest = fs::read_dir(host.path("v2/blobs/sha256")).unwrap().count() - 2;
    assert!(imported.layers_fetched < manifest, "{imported:?} of {manifest} layers");
}

#[test]
fn present_image_by_digest_needs_neither_network_nor_skopeo() {
    let host = Host::new();
    let digest = host.default().manifest_digest.unwrap();
    let lonely = program().with_env("PATH", "/nonexistent");
    let pinned = image(&format!("registry.invalid/mirrored@{digest}"));
    let imported = import_with(&host, &lonely, &pinned).unwrap();
    assert_eq!(imported.commit, host.default().id.commit);
    assert_eq!((imported.layers_fetched, imported.bytes_fetched), (0, 0));
}

#[test]
fn missing_skopeo_is_reported() {
    let host = Host::new();
    let lonely = program().with_env("PATH", "/nonexistent");
    let local = host.image(&Os::new(2), "v2");
    assert_eq!(failure_with(&host, &lonely, &local), PullFailure::SkopeoMissing);
    let remote = image("registry.invalid/os:1");
    assert_eq!(failure_with(&host, &lonely, &remote), PullFailure::SkopeoMissing);
}

#[test]
fn missing_image_is_not_found() {
    let host = Host::new();
    assert_eq!(failure(&host, &host.layout("nowhere")), PullFailure::NotFound);
    let tagged = host.image(&Os::new(2), "v2").to_string() + ":absent";
    assert_eq!(failure(&host, &image(&tagged)), PullFailure::NotFound);
}

#[test]
fn image_without_kernel_is_not_bootable() {
    let host = Host::new();
    let image = host.image(&Os::new(2).without_kernel(), "v2");
    assert_eq!(failure(&host, &image), PullFailure::NotBootable);
}

#[test]
fn changed_byte_in_a_layer_is_an_error() {
    let host = Host::new();
    let entries = host.boot_entries();
    let image = host.image(&Os::new(2), "v2");
    let layer = blobs(&host.path("v2")).remove(0);
    let mut bytes = fs::read(&layer).unwrap();
    // Gzip's trailing checksum: the tar inside stays readable.
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    fs::write(&layer, bytes).unwrap();
    assert_eq!(failure(&host, &image), PullFailure::Corrupt);
    assert_eq!(host.boot_entries(), entries);
}

#[test]
fn exchanged_layer_is_an_error() {
    let host = Host::new();
    let image = host.image(&Os::new(2), "v2");
    host.image(&Os::new(3), "v3");
    let (ours, others) = (blobs(&host.path("v2")), blobs(&host.path("v3")));
    let stranger = others.iter().find(|blob| !ours.iter().any(|our| our.file_name() == blob.file_name()));
    fs::copy(
        stranger.unwrap(),
        ours.iter().find(|blob| !others.iter().any(|other| other.file_name() == blob.file_name())).unwrap(),
    )
    .unwrap();
    assert_eq!(failure(&host, &image), PullFailure::Corrupt);
}

#[test]
fn signed_reference_is_refused_under_an_accepting_policy() {
    let host = Host::new();
    let unverified = host.image(&Os::new(2), "v2").to_string();
    let signed = unverified.replace("ostree-unverified-image:", "ostree-image-signed:");
    assert_eq!(failure(&host, &image(&signed)), PullFailure::SignatureRejected);
}

#[test]
fn image_is_pulled_from_a_registry() {
    let host = Host::new();
    let digest = osimage::write_image(&Os::new(2), &host.path("v2"), None).unwrap();
    let registry = ImageRegistry::start(RegistryAnswers::Layout(host.path("v2"))).unwrap();
    registry.write_home(&host.path("home")).unwrap();
    let program = program().with_env("HOME", host.path("home"));
    let address = registry.address();

    let pinned = image(&format!("{address}/os@{digest}"));
    let imported = import_with(&host, &program, &pinned).unwrap();
    assert_eq!(imported.manifest_digest.as_deref(), Some(digest.as_str()));
    let absent = image(&format!("{address}/os@sha256:{}", "0".repeat(64)));
    assert_eq!(failure_with(&host, &program, &absent), PullFailure::NotFound);

    drop(registry);
    assert_eq!(import_with(&host, &program, &pinned).unwrap().commit, imported.commit);
    let gone = image(&format!("{address}/os:latest"));
    assert_eq!(failure_with(&host, &program, &gone), PullFailure::Unreachable);
}

#[test]
fn fetch_that_stalls_ends_as_a_transient_failure() {
    let host = Host::new();
    let digest = osimage::write_image(&Os::new(2), &host.path("v2"), None).unwrap();
    // In the image's config, and in its layers.
    for whole in 0..3 {
        let registry = ImageRegistry::start(RegistryAnswers::Stalling(host.path("v2"), whole)).unwrap();
        registry.write_home(&host.path("home")).unwrap();
        let program =
            program().with_env("HOME", host.path("home")).with_env("FLAMEHOLDER_FETCH_TIMEOUT", "2");
        let pinned = image(&format!("{}/os@{digest}", registry.address()));
        let reason = failure_with(&host, &program, &pinned);
        assert!(reason == PullFailure::Stalled && reason.is_transient(), "after {whole} blobs: {reason}");
    }
}

#[test]
fn manifest_with_another_digest_is_refused() {
    let host = Host::new();
    let digest = osimage::write_image(&Os::new(2), &host.path("v2"), None).unwrap();
    let wrong = format!("sha256:{}", "1".repeat(64));
    let blobs = host.path("v2/blobs");
    fs::copy(blobs.join(digest.replace(':', "/")), blobs.join(wrong.replace(':', "/"))).unwrap();
    let registry = ImageRegistry::start(RegistryAnswers::Layout(host.path("v2"))).unwrap();
    registry.write_home(&host.path("home")).unwrap();
    let program = program().with_env("HOME", host.path("home"));
    let pinned = image(&format!("{}/os@{wrong}", registry.address()));
    assert_eq!(failure_with(&host, &program, &pinned), PullFailure::Corrupt);
}

#[test]
fn registry_without_credentials_denies_access() {
    let host = Host::new();
    let message = "{\"errors\": [{\"code\": \"UNAUTHORIZED\", \"message\": \"authentication required\"}]}";
    let registry = ImageRegistry::start(RegistryAnswers::Status("401 Unauthorized", message)).unwrap();
    registry.write_home(&host.path("home")).unwrap();
    let program = program().with_env("HOME", host.path("home"));
    let image = image(&format!("{}/os:latest", registry.address()));
    assert_eq!(failure_with(&host, &program, &image), PullFailure::Denied);
}

#[test]
fn registry_without_tls_is_not_trusted() {
    let host = Host::new();
    let registry = ImageRegistry::start(RegistryAnswers::Status("400 Bad Request", "{}")).unwrap();
    fs::create_dir(host.path("home")).unwrap();
    let program = program().with_env("HOME", host.path("home"));
    let image = image(&format!("{}/os:latest", registry.address()));
    assert_eq!(failure_with(&host, &program, &image), PullFailure::Tls);
}
