//! Documents that cannot be parsed or exceed a limit: exit code, the field in the error, and an unchanged
//! tree.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use testbed::model::document::{data_url, file, machine_config, with_files};
use testbed::model::refused::assert_all_refused;
use testbed::model::run::flameholder;

const MIB: usize = 1 << 20;

/// Data URL of this many zeros, compressed.
fn zeros(length: usize) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let mebibyte = vec![0; MIB];
    for _ in 0..length / MIB {
        encoder.write_all(&mebibyte).expect("memory");
    }
    data_url(&encoder.finish().expect("memory"))
}

#[test]
fn malformed_documents_are_refused() {
    let good = bytes(&with_files("rendered-good", &[file("/etc/x", "x")]));
    let twice = br#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"a"},
        "spec":{"kernelType":"default","kernelType":"realtime","config":{"ignition":{"version":"3.5.0"}}}}"#;
    let twice_deep = br#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"a"},
        "spec":{"config":{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/x","path":"/etc/y"}]}}}}"#;
    let mut kind = with_files("rendered-bad", &[]);
    kind["kind"] = json!("ConfigMap");
    let mut group = with_files("rendered-bad", &[]);
    group["apiVersion"] = json!("v1");
    let mut newer = with_files("rendered-bad", &[]);
    newer["apiVersion"] = json!("machineconfiguration.openshift.io/v2");
    let spec = |spec: Value| {
        let mut object = with_files("rendered-bad", &[]);
        object["spec"] = spec;
        bytes(&object)
    };
    let mut cut_off = with_files("rendered-bad", &[]);
    cut_off.as_object_mut().expect("an object").remove("spec");
    let misspelt = json!({"kernelArgumnets": ["nosmt"], "osImageUrl": "registry.example/os", "replicas": 3});
    let mut nameless = with_files("rendered-bad", &[]);
    nameless["metadata"] = json!({});
    let mut shape = with_files("rendered-bad", &[]);
    shape["spec"]["config"]["storage"]["files"] = json!({"path": "/etc/x"});
    let version =
        |version: Value| bytes(&machine_config("rendered-bad", &json!({"ignition": {"version": version}})));
    assert_all_refused(vec![
        ("an empty document", Vec::new(), &["desired.json"]),
        ("white space", b" \n\t\n".to_vec(), &["desired.json"]),
        ("a truncated document", good[..good.len() - 9].to_vec(), &["desired.json"]),
        ("two documents", [good.as_slice(), good.as_slice()].concat(), &["desired.json"]),
        ("bytes that are not UTF-8", b"{\"kind\": \"\xff\xfe\"}".to_vec(), &["desired.json"]),
        ("nesting without end", [b'['].repeat(200_000), &["desired.json"]),
        ("a number", b"42".to_vec(), &["desired.json"]),
        ("null", b"null".to_vec(), &["desired.json"]),
        ("another kind", bytes(&kind), &["kind"]),
        ("another API group", bytes(&group), &["apiVersion"]),
        ("another API version", bytes(&newer), &["apiVersion", "v2"]),
        ("no spec", bytes(&cut_off), &["the object has no spec"]),
        ("a null spec", spec(Value::Null), &["the object has no spec"]),
        ("an empty spec where files are managed", spec(json!({})), &["would remove everything"]),
        (
            "misspelt keys of the spec",
            spec(misspelt),
            &["`kernelArguments`?", "spec.osImageUrl", "`osImageURL`?", "spec.replicas", "accepted: base"],
        ),
        ("no name", bytes(&nameless), &["name"]),
        ("files that are no list", bytes(&shape), &["spec.config.storage.files"]),
        ("a key twice", twice.to_vec(), &["spec", "kernelType"]),
        ("a key twice in a list", twice_deep.to_vec(), &["spec.config.storage.files[0]", "path"]),
        ("an unknown Ignition version", version(json!("21.0.0")), &["spec.config.ignition.version"]),
        ("an Ignition version that is none", version(json!("three")), &["spec.config.ignition.version"]),
        ("no Ignition version", version(Value::Null), &["spec.config.ignition"]),
        (
            "an empty list",
            br#"{"apiVersion":"v1","kind":"List","items":[]}"#.to_vec(),
            &["items|desired.json"],
        ),
    ]);
}

#[test]
fn documents_beyond_the_limits_are_refused() {
    let bomb = (1..=9).fold("a: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        let below = vec![format!("*a{}", level - 1); 9].join(",");
        text + &format!("l{level}: &a{level} [{below}]\n")
    });
    let many: Vec<Value> = (0..100_000).map(|index| json!({"path": format!("/etc/many/{index}")})).collect();
    let over: Vec<Value> = many[..20_001].to_vec();
    let squeezed = |path: &str, length: usize| json!({"path": path, "contents": {"compression": "gzip", "source": zeros(length)}});
    let long = with_files("rendered-bad", &[file("/etc/x", "x")]).to_string() + &" ".repeat(50_000_000);
    let kind = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\n";
    assert_all_refused(vec![
        ("50 MB", long.into_bytes(), &["desired.json", "16 MiB|16777216"]),
        ("aliases that explode", format!("{kind}{bomb}").into_bytes(), &["desired.json"]),
        ("100,000 files", bytes(&with_files("rendered-bad", &many)), &["files", "20,000|20000"]),
        ("20,001 files", bytes(&with_files("rendered-bad", &over)), &["files", "20,000|20000"]),
        (
            "one file that inflates too far",
            bytes(&with_files("rendered-bad", &[squeezed("/etc/x", 65 * MIB)])),
            &["spec.config.storage.files[0]", "64 MiB|67108864"],
        ),
        (
            "two files that inflate too far together",
            bytes(&with_files("rendered-bad", &[squeezed("/etc/x", 40 * MIB), squeezed("/etc/y", 40 * MIB)])),
            &["spec.config.storage.files[1]", "64 MiB|67108864"],
        ),
    ]);
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

#[test]
fn unknown_key_of_a_newer_cluster_is_a_warning() {
    let documents = tempfile::tempdir().unwrap();
    let path = documents.path().join("newer.json");
    let mut newer = with_files("rendered-newer", &[file("/etc/x", "x")]);
    newer["spec"]["futureField"] = json!(true);
    std::fs::write(&path, bytes(&newer)).unwrap();
    std::fs::write(documents.path().join("current.json"), bytes(&with_files("rendered-old", &[]))).unwrap();
    let current = documents.path().join("current.json");
    let [path, current] = [&path, &current].map(|path| path.to_str().unwrap());
    let outcome = flameholder(["plan", "--profile", "mcd", "--current", current, "--desired", path]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("spec.futureField: unknown key"), "{outcome:?}");
}
