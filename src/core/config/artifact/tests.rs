//! Artifacts as registries and attackers send them.

use serde_json::{Value, json};

use super::*;
use crate::core::config::butane::{LocalFileError, LocalFiles as _, LocalNode};

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
const TITLE: &str = "org.opencontainers.image.title";

fn digest(number: usize) -> String {
    format!("sha256:{number:064x}")
}

fn layer(number: usize, media_type: &str, annotations: &Value) -> Value {
    json!({"mediaType": media_type, "digest": digest(number), "size": 10, "annotations": annotations})
}

fn titled(number: usize, title: &str) -> Value {
    layer(number, "application/vnd.example", &json!({TITLE: title}))
}

fn parse(layers: &[Value]) -> Result<ArtifactManifest, ArtifactError> {
    let manifest = json!({"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.empty.v1+json"},
        "layers": layers, "annotations": {"org.opencontainers.image.created": "2026-01-01T00:00:00Z"}});
    ArtifactManifest::parse(manifest.to_string().as_bytes())
}

fn file(path: &str, contents: &[u8]) -> ArtifactFile {
    ArtifactFile { path: path.to_owned(), is_executable: false, contents: contents.to_vec() }
}

fn files(paths: &[&str]) -> ArtifactFiles {
    let mut files = ArtifactFiles::default();
    for path in paths {
        files.add(file(path, path.as_bytes())).unwrap();
    }
    files
}

#[test]
fn reference_names_a_registry_and_a_tag_or_digest() {
    let pinned = format!("oci://registry.example.com:5000/fleet/edge/configs@{}", digest(1));
    for (text, is_pinned) in
        [("oci://registry.example.com/fleet:v1", false), (&pinned, true), ("oci://localhost/x:1", false)]
    {
        let reference: ArtifactRef = text.parse().unwrap();
        assert_eq!((reference.to_string().as_str(), reference.is_pinned()), (text, is_pinned));
        let image = reference.image().to_string();
        assert_eq!(image.strip_prefix("ostree-unverified-registry:"), text.strip_prefix("oci://"));
    }
}

#[test]
fn unusable_reference_is_refused_with_the_way_out_and_without_its_secrets() {
    let both = format!("oci://registry.example/x:1@{}", digest(1));
    for (text, mentions) in [
        ("oci://", "no image named"),
        ("oci:///x:1", "white space"),
        ("oci://registry.example", "expected oci://"),
        ("oci://registry.example/", "expected oci://"),
        ("oci://registry.example/x?tag=1", "expected oci://"),
        ("OCI://registry.example/x:1", "expected oci://"),
        ("https://registry.example/x:1", "expected oci://"),
        ("oci://fleet/configs:stable", "registry is missing"),
        ("oci://registry.example/x", "neither a tag nor a digest"),
        ("oci://registry.example:5000/x", "neither a tag nor a digest"),
        ("oci://registry.example/x:", "neither a tag nor a digest"),
        (&both, "keep one"),
        ("oci://registry.example/x@sha256:12", "64"),
        ("oci://registry.example/x y:1", "white space"),
        ("oci://user:very-secret@registry.example/x:1", "credentials"),
        ("oci://user:very-secret@registry.example", "expected"),
    ] {
        let refused = text.parse::<ArtifactRef>().unwrap_err().to_string();
        assert!(refused.contains(mentions) && !refused.contains("very-secret"), "{text}: {refused}");
    }
    assert!(ArtifactRef::is_meant_by("OCI://x") && !ArtifactRef::is_meant_by("oci:x"));
}

#[test]
fn form_of_each_layer_is_told_from_its_title_and_media_type() {
    let unpacked = json!({TITLE: "files", "io.deis.oras.content.unpack": "true"});
    let manifest = parse(&[
        titled(1, "10-base.bu"),
        titled(2, "./files/motd"),
        layer(3, &format!("{TAR}+gzip"), &unpacked),
        layer(4, TAR, &Value::Null),
        layer(5, &format!("{TAR}+zstd"), &json!({})),
        layer(6, "application/vnd.docker.image.rootfs.diff.tar.gzip", &json!({})),
        layer(7, TAR, &json!({TITLE: "archive.tar"})),
    ]);
    let contents: Vec<_> = manifest.unwrap().layers.into_iter().map(|layer| layer.content).collect();
    let named = |path: &str| LayerContent::File(path.to_owned());
    let archive = LayerContent::Archive;
    assert_eq!(
        contents,
        [
            named("10-base.bu"),
            named("files/motd"),
            archive(LayerPacking::Gzip),
            archive(LayerPacking::Plain),
            archive(LayerPacking::Zstd),
            archive(LayerPacking::Gzip),
            named("archive.tar"),
        ]
    );
}

#[test]
fn hostile_manifest_is_refused_by_its_fault() {
    let sized = |number, size: u64| json!({"mediaType": TAR, "digest": digest(number), "size": size});
    let large = limits::INFLATED_BYTES as u64;
    let mut document = titled(1, "a.bu");
    document["size"] = json!(limits::DOCUMENT_BYTES + 1);
    let many: Vec<Value> = (0..=limits::ARTIFACT_LAYERS).map(|number| titled(number, "a.bu")).collect();
    let mut elsewhere = titled(1, "a.bu");
    elsewhere["urls"] = json!(["https://elsewhere.example/a.bu"]);
    let mut undigested = titled(1, "a.bu");
    undigested["digest"] = json!("sha256:../../blob");
    let path = |title: &str| ArtifactError::Path(title.to_owned());
    for (layers, expected) in [
        (vec![], ArtifactError::Empty),
        (many, ArtifactError::Layers { count: limits::ARTIFACT_LAYERS + 1 }),
        (vec![sized(1, large), sized(2, 1)], ArtifactError::Size),
        (vec![sized(1, u64::MAX), sized(2, u64::MAX)], ArtifactError::Size),
        (vec![document], ArtifactError::FileSize { path: "a.bu".to_owned() }),
        (vec![elsewhere], ArtifactError::ForeignLayer(1)),
        (vec![undigested], ArtifactError::LayerDigest(1)),
        (vec![titled(1, "../a.bu")], path("../a.bu")),
        (vec![titled(1, "/etc/a.bu")], path("/etc/a.bu")),
        (vec![titled(1, "files/../../a.bu")], path("files/../../a.bu")),
        (vec![titled(1, "")], path("")),
        (vec![titled(1, "a\nb.bu")], path("a\nb.bu")),
        (
            vec![layer(1, &format!("{TAR}+encrypted"), &json!({}))],
            ArtifactError::Form { layer: 1, media_type: format!("{TAR}+encrypted") },
        ),
        (
            vec![layer(1, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", &json!({}))],
            ArtifactError::Form {
                layer: 1,
                media_type: "application/vnd.cncf.helm.chart.content.v1.tar+gzip".into(),
            },
        ),
    ] {
        assert_eq!(parse(&layers).unwrap_err(), expected);
    }
    for text in [
        "",
        "[]x",
        "{\"layers\": [{}]}",
        "{\"layers\": [{\"mediaType\": \"x\", \"digest\": \"y\", \"size\": -1}]}",
    ] {
        assert!(
            matches!(ArtifactManifest::parse(text.as_bytes()), Err(ArtifactError::Manifest(_))),
            "{text}"
        );
    }
    assert_eq!(ArtifactManifest::parse(b"{}"), Err(ArtifactError::Empty));
    let padded = vec![b' '; limits::ARTIFACT_MANIFEST_BYTES + 1];
    assert_eq!(ArtifactManifest::parse(&padded), Err(ArtifactError::ManifestSize));
}

#[test]
fn entry_that_is_no_plain_file_is_refused_by_its_name() {
    let mut files = ArtifactFiles::default();
    assert_eq!(files.entry("./files/", EntryKind::Directory), Ok(None));
    assert_eq!(files.entry("/10-a.bu", EntryKind::File), Ok(Some("10-a.bu".to_owned())));
    for (path, kind, words) in [
        ("../10-a.bu", EntryKind::File, "leads out"),
        ("files/../../etc/passwd", EntryKind::Directory, "leads out"),
        ("./", EntryKind::File, "leads out"),
        ("10-a.bu", EntryKind::Other("a symbolic link"), "is a symbolic link"),
        ("files/.wh.motd", EntryKind::File, "removes files"),
        (".wh..wh..opq", EntryKind::File, "removes files"),
    ] {
        let refused = files.entry(path, kind).unwrap_err().to_string();
        assert!(refused.contains(words), "{path}: {refused}");
    }
    for _ in 0..limits::STORAGE_ENTRIES {
        let _ = files.entry("directory", EntryKind::Directory);
    }
    assert_eq!(files.entry("directory", EntryKind::Directory), Err(ArtifactError::Entries));
}

#[test]
fn paths_are_unique_within_a_layer_and_replaced_by_later_ones() {
    let mut base = files(&["10-a.bu", "files/motd"]);
    assert_eq!(base.add(file("10-a.bu", b"")), Err(ArtifactError::Duplicate("10-a.bu".to_owned())));
    for path in ["10-a.bu/x", "files"] {
        assert_eq!(base.add(file(path, b"")), Err(ArtifactError::FileAndDirectory(path.to_owned())));
    }
    let mut layer = base.next_layer();
    layer.add(file("10-a.bu", b"later")).unwrap();
    base.overlay(layer).unwrap();
    let root: Vec<_> = base.at_root().map(|file| (file.path.as_str(), file.contents.as_slice())).collect();
    assert_eq!(root, [("10-a.bu", &b"later"[..])]);
}

#[test]
fn size_of_all_files_is_limited_in_each_layer_and_over_all() {
    let mut base = ArtifactFiles::default();
    let full = vec![0; limits::DOCUMENT_BYTES];
    assert_eq!(
        base.add(file("a", &[full.clone(), vec![0]].concat())),
        Err(ArtifactError::FileSize { path: "a".to_owned() })
    );
    for name in ["a", "b", "c"] {
        base.add(file(name, &full)).unwrap();
    }
    let mut layer = base.next_layer();
    layer.add(file("a", &full)).unwrap();
    assert_eq!(layer.most_bytes(), 1);
    assert_eq!(layer.add(file("d", b"x")), Err(ArtifactError::Size));
    base.overlay(layer).unwrap();
    assert_eq!(base.add(file("d", b"x")), Err(ArtifactError::Size));
}

#[test]
fn local_files_of_butane_are_those_of_the_artifact() {
    let files = files(&["10-a.bu", "files/motd", "files/b/c", "files2/x"]);
    assert_eq!(files.read("./files/motd").unwrap(), b"files/motd");
    let entries = files.tree("files/").unwrap();
    let paths: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["b", "b/c", "motd"]);
    assert_eq!(entries[0].node, LocalNode::Directory);
    assert_eq!(entries[1].node, LocalNode::File { contents: b"files/b/c".to_vec(), is_executable: false });
    assert!(matches!(files.read("../x"), Err(LocalFileError::Outside)));
    for refused in [files.read("files").unwrap_err(), files.tree("motd").unwrap_err()] {
        assert!(refused.to_string().contains("the artifact has no"), "{refused}");
    }
}

#[test]
fn file_crosses_the_pipe_unchanged() {
    let sent = file("a", &[0, 255, b'\n']);
    let text = serde_json::to_string(&sent).unwrap();
    assert!(text.contains("\"AP8K\""), "{text}");
    assert_eq!(serde_json::from_str::<ArtifactFile>(&text).unwrap(), sent);
}
