//! Release images of `OpenShift`, and update graphs, from which `render` takes the images of a config.

use std::process::{Command, Output};

use osimage::{ImageRegistry, TAR};
use serde_json::{Value, json};
use testbed::executables::flameholder;

use super::artifact_shelf::{ArtifactShelf, archive, gzip};

const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Registry with a release image, and a config to render.
struct ReleaseDesk {
    shelf: ArtifactShelf,
    registry: ImageRegistry,
}

impl ReleaseDesk {
    fn new() -> Self {
        let shelf = ArtifactShelf::new();
        let registry = shelf.serve();
        std::fs::write(shelf.scratch.path().join("a.ign"), r#"{"ignition": {"version": "3.4.0"}}"#).unwrap();
        Self { shelf, registry }
    }

    /// Push a release whose last layer has nothing of it, as release images of clusters may.
    fn push(&self, manifests: &[(&str, &str)]) -> String {
        let base = [("etc/passwd", "root"), ("release-manifests/release-metadata", "of the base")];
        let layers = [&base[..], manifests, &[("etc/motd", "hello")]].map(|files| {
            let files: Vec<_> =
                files.iter().map(|(path, text)| (*path, tar::EntryType::Regular, *text)).collect();
            self.shelf.layout.layer(&format!("{TAR}+gzip"), &gzip(&archive(&files))).unwrap()
        });
        self.shelf.layout.push(&layers).unwrap();
        format!("{}/os:stable", self.registry.address())
    }

    fn render(&self, arguments: &[&str]) -> Output {
        let config = self.shelf.scratch.path().join("a.ign");
        Command::new(flameholder())
            .arg("render")
            .arg(config)
            .args(arguments)
            .env("HOME", self.shelf.home())
            .output()
            .unwrap()
    }

    /// Render with success, and return the image of the operating system, that of the extensions, and the notes.
    fn rendered(&self, arguments: &[&str]) -> (String, String, String) {
        let output = self.render(arguments);
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{notes}");
        let config: Value = serde_json::from_slice(&output.stdout).unwrap();
        let field = |name: &str| config["spec"][name].as_str().unwrap().to_owned();
        (field("osImageURL"), field("baseOSExtensionsContainerImage"), notes)
    }

    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.render(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    }

    fn graph(&self, graph: &Value) -> String {
        let path = self.shelf.scratch.path().join("graph.json");
        std::fs::write(&path, graph.to_string()).unwrap();
        path.display().to_string()
    }
}

/// Return the documents of a release, and the images of its operating system and of the extensions.
fn release() -> (String, String, [String; 2]) {
    let images = ["os", "extensions"].map(|name| format!("quay.io/openshift/{name}@{DIGEST}"));
    let tag = |name: &str, image: &str| json!({"name": name, "from": {"kind": "DockerImage", "name": image}});
    let tags = [tag("rhel-coreos", &images[0]), tag("rhel-coreos-extensions", &images[1])];
    let metadata = json!({"kind": "cincinnati-metadata-v0", "version": "4.17.3", "previous": []});
    (metadata.to_string(), json!({"kind": "ImageStream", "spec": {"tags": tags}}).to_string(), images)
}

#[test]
fn config_gets_the_images_of_its_release() {
    let desk = ReleaseDesk::new();
    let (metadata, references, [os, extensions]) = release();
    let image = desk.push(&[
        ("release-manifests/release-metadata", &metadata),
        ("release-manifests/image-references", &references),
    ]);
    let (found_os, found_extensions, notes) = desk.rendered(&["--release", &image]);
    assert_eq!((found_os, found_extensions), (os.clone(), extensions));
    assert!(notes.contains("is the release 4.17.3"), "{notes}");
    // By way of the graph of such releases.
    let releases =
        [json!({"version": "4.17.2", "payload": "a/b:c"}), json!({"version": "4.17.3", "payload": image})];
    let graph = desk.graph(&json!({"nodes": releases, "edges": [[0, 1]]}));
    let (found_os, _, notes) = desk.rendered(&["--from-graph", &graph, "--os-version", "4.17.2"]);
    assert_eq!(found_os, os);
    assert!(notes.contains("4.17.3 follows 4.17.2"), "{notes}");
}

#[test]
fn image_that_is_no_release_is_refused() {
    let desk = ReleaseDesk::new();
    let (_, references, _) = release();
    let image = desk.push(&[("release-manifests/image-references", &references)]);
    // The base image's file is no metadata.
    let refused = desk.refusal(&["--release", &image]);
    assert!(refused.contains("release-metadata is malformed"), "{refused}");
    let image = desk.push(&[("release-manifests/.wh.release-metadata", "")]);
    let refused = desk.refusal(&["--release", &image]);
    assert!(
        refused.contains("no file release-manifests/release-metadata: it is no release image"),
        "{refused}"
    );
    let refused = desk.refusal(&["--release", "ostree-unverified-image:oci:/nowhere:stable"]);
    assert!(refused.contains("/nowhere"), "{refused}");
}

#[test]
fn graph_picks_the_image_that_follows_or_says_why_none_does() {
    let desk = ReleaseDesk::new();
    let node = |version: &str, scheme: &str, more: Value| {
        let mut metadata = json!({"org.fedoraproject.coreos.scheme": scheme});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"version": version, "payload": format!("quay.io/fedora/fedora-coreos:{version}"), "metadata": metadata})
    };
    let dead_end = json!({
        "org.fedoraproject.coreos.updates.deadend": "true",
        "org.fedoraproject.coreos.updates.deadend_reason": "no way on",
    });
    let nodes = [
        node("42.1.3.0", "oci", json!({})),
        node("43.1.3.0", "oci", json!({})),
        node("44.1.3.0", "checksum", json!({})),
        node("41.1.3.0", "oci", dead_end),
        node("39.1.3.0", "oci", json!({})),
        json!({"version": "39.2.3.0", "payload": "no image", "metadata": {"org.fedoraproject.coreos.scheme": "oci"}}),
        json!({"version": "39.3.3.0", "payload": "no image"}),
    ];
    let graph = desk.graph(&json!({"nodes": nodes, "edges": [[0, 1], [1, 2], [4, 5], [5, 6]]}));
    let picked = |version: &str| ["--from-graph", &graph, "--os-version", version].map(str::to_owned);
    let arguments = picked("42.1.3.0");
    let (os, extensions, _) = desk.rendered(&arguments.each_ref().map(String::as_str));
    assert_eq!((os.as_str(), extensions.as_str()), ("quay.io/fedora/fedora-coreos:43.1.3.0", ""));
    for (version, words) in [
        ("43.1.3.0", "names 44.1.3.0 by a commit"),
        ("39.1.3.0", "the release 39.2.3.0: image reference"),
        ("39.2.3.0", "the release 39.3.3.0: image reference"),
        ("44.1.3.0", "no release follows 44.1.3.0"),
        ("41.1.3.0", "41.1.3.0 is a dead end: no way on"),
        ("40.1.3.0", "does not have the version 40.1.3.0"),
    ] {
        let arguments = picked(version);
        let refused = desk.refusal(&arguments.each_ref().map(String::as_str));
        assert!(refused.contains(words) && refused.contains("graph.json"), "{refused}");
    }
    let refused = desk.refusal(&["--from-graph", "http://127.0.0.1/v1/graph?token=x", "--os-version", "1"]);
    assert!(refused.contains("only https://") && !refused.contains("token"), "{refused}");
}
