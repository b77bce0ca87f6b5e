//! Tests of the resolution of Ignition configs.

use super::*;

const ABC: &str = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const REMOTE: &str = "https://host/tool?signature=very-secret";

fn data_url(document: &Value) -> String {
    format!("data:;base64,{}", BASE64_STANDARD.encode(document.to_string()))
}

/// Config with these files, each with its contents, and these others to merge.
fn config(files: &[(&str, &str)], merged: &[Value]) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|(path, text)| json!({"path": path, "contents": {"source": format!("data:,{text}")}}))
        .collect();
    let merged: Vec<Value> = merged.iter().map(|other| json!({"source": data_url(other)})).collect();
    json!({"ignition": {"version": "3.4.0", "config": {"merge": merged}}, "storage": {"files": files}})
}

fn resolved(document: &Value) -> Result<ResolvedIgnition, UnresolvedConfig> {
    resolve(document.clone(), &RemoteContents::default())
}

/// Paths and sources of the files of the result.
fn files(document: &Value) -> Vec<(String, String)> {
    let document = resolved(document).unwrap().document;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let files = document["storage"]["files"].as_array().unwrap().iter();
    files.map(|file| (text(&file["path"]), text(&file["contents"]["source"]))).collect()
}

fn refusals(document: &Value) -> Vec<String> {
    let refused = resolved(document).unwrap_err().refusals();
    refused.as_slice().iter().map(ToString::to_string).collect()
}

#[test]
fn config_that_names_nothing_stays_as_it_is() {
    for document in [
        json!({"ignition": {"version": "3.1.0", "config": {"merge": []}}, "storage": {"files": null}}),
        json!({"ignition": {"version": "2.2.0"}, "systemd": {"units": [{"name": "a.service", "unknown": 1}]}}),
    ] {
        assert_eq!(resolved(&document).unwrap().document, document);
    }
}

#[test]
fn merged_configs_win_over_the_one_that_names_them_and_later_ones_over_earlier() {
    let inner = config(&[("/a", "inner"), ("/e", "inner")], &[]);
    let first = config(&[("/a", "first"), ("/b", "first"), ("/d", "first")], &[inner]);
    let second = config(&[("/b", "second"), ("/c", "second")], &[]);
    let outer = config(&[("/a", "outer"), ("/b", "outer"), ("/z", "outer")], &[first, second]);
    let expected = [
        ("/a", "inner"),
        ("/b", "second"),
        ("/z", "outer"),
        ("/d", "first"),
        ("/e", "inner"),
        ("/c", "second"),
    ];
    let expected = expected.map(|(path, text)| (path.to_owned(), format!("data:,{text}")));
    assert_eq!(files(&outer), expected);
    let document = resolved(&outer).unwrap().document;
    assert_eq!(document["ignition"], json!({"version": "3.4.0"}));
}

#[test]
fn config_that_replaces_takes_the_place_of_all_else() {
    let other = config(&[("/b", "other")], &[config(&[("/c", "merged")], &[])]);
    let mut outer = config(&[("/a", "outer")], &[config(&[("/d", "ignored")], &[])]);
    outer["ignition"]["config"]["replace"] = json!({"source": data_url(&other)});
    outer["storage"]["disks"] = json!([{"device": "/dev/vda"}]);
    let paths: Vec<String> = files(&outer).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/b", "/c"]);
}

#[test]
fn version_2_appends_and_takes_the_last_file_of_a_path() {
    let version_2 = |config: Value, text: &str| {
        json!({"ignition": {"version": "2.2.0", "config": config}, "storage": {"files": [
            {"filesystem": "root", "path": "/a", "mode": 384, "contents": {"source": format!("data:,{text}")}}]}})
    };
    let mut appended = version_2(json!({}), "appended");
    appended["storage"]["files"][0].as_object_mut().unwrap().remove("mode");
    let outer = version_2(json!({"append": [{"source": data_url(&appended)}]}), "outer");
    let document = resolved(&outer).unwrap().document;
    assert_eq!(document["ignition"]["version"], "3.0.0");
    let file = &document["storage"]["files"][0];
    assert_eq!((&file["contents"]["source"], &file["mode"]), (&json!("data:,appended"), &Value::Null));
}

#[test]
fn problem_of_a_merged_config_is_named_by_its_place() {
    let place = "spec.config.ignition.config.merge[1]";
    let with = |other: Value| config(&[], &[config(&[], &[]), other]);
    let bad_mode =
        json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/a", "mode": 1777}]}});
    let disk = json!({"ignition": {"version": "3.4.0"}, "storage": {"disks": [{"device": "/dev/vda"}]}});
    let url = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/a", "contents": {"source": REMOTE}}]}});
    for (document, expected) in [
        (with(bad_mode.clone()), format!("{place}.storage.files[0].mode: the mode 1777")),
        (
            with(config(&[], &[bad_mode])),
            format!("{place}.ignition.config.merge[0].storage.files[0].mode: the mode"),
        ),
        (with(disk), format!("{place}.storage.disks: only Ignition")),
        (with(url), format!("{place}.storage.files[0].contents.source: contents from `https:`")),
        (with(json!({"ignition": {"version": "9.0.0"}})), format!("{place}.ignition.version: the Ignition")),
        (with(json!("text")), format!("{place}.ignition.version: the Ignition version is missing")),
    ] {
        let [refused] = &refusals(&document)[..] else { panic!("{:?}", refusals(&document)) };
        assert!(refused.starts_with(&expected), "{refused}");
        assert!(!refused.contains("very-secret"), "{refused}");
    }
    for (source, expected) in [
        (json!({"source": REMOTE}), ".source: a config from a URL needs its hash"),
        (json!({"source": "data:,{"}), ": line 1, column 1: not valid JSON"),
        (json!({"source": "data:,"}), ": the document is empty"),
        (json!({"source": "s3://bucket/a"}), ".source: contents from `s3:`"),
        (json!({"source": "data:,x", "compression": "gzip"}), ".source: the contents are not valid gzip"),
        (json!({"compression": "gzip"}), ": a config that is merged needs a `source`"),
        (
            json!({"source": "data:,abd", "verification": {"hash": ABC}}),
            ".verification.hash: the contents have the hash sha256-a52d",
        ),
        (
            json!({"source": "data:,abc", "verification": {"hash": "md5-1"}}),
            ".verification.hash: expected `sha512-`",
        ),
    ] {
        let document = json!({"ignition": {"version": "3.4.0", "config": {"merge": [{"source": data_url(&config(&[], &[]))}, source]}}});
        let [refused] = &refusals(&document)[..] else { panic!("{:?}", refusals(&document)) };
        assert!(refused.starts_with(&format!("{place}{expected}")), "{refused}");
    }
}

#[test]
fn problem_that_only_the_merge_makes_is_named_as_such() {
    let below = config(&[("/a/b", "x")], &[]);
    let refused = refusals(&config(&[("/a", "x")], &[below]));
    let expected = "spec.config.ignition.config: once merged, storage.files[1].path: /a/b lies below /a";
    assert!(refused[0].starts_with(expected), "{refused:?}");
    // The hash of the outer file stays, as in Ignition, and is not that of the new contents.
    let mut outer = config(&[], &[config(&[("/a", "abd")], &[])]);
    outer["storage"]["files"] =
        json!([{"path": "/a", "contents": {"source": "data:,abc", "verification": {"hash": ABC}}}]);
    let refused = refusals(&outer);
    let expected = "spec.config.ignition.config: once merged, storage.files[0].contents.verification.hash: the contents have";
    assert!(refused[0].starts_with(expected), "{refused:?}");
}

#[test]
fn depth_number_and_size_of_merged_configs_are_limited() {
    let nested =
        (0..100).fold(
            config(&[("/a", "deep")], &[]),
            |inner, level| {
                if level < 30 { config(&[], &[inner]) } else { inner }
            },
        );
    let refused = refusals(&nested);
    assert!(refused[0].ends_with("configs name each other 16 levels deep; merge some"), "{refused:?}");
    let many = config(&[], &vec![config(&[], &[]); limits::MERGED_CONFIGS + 1]);
    let refused = refusals(&many);
    assert_eq!(
        refused,
        ["spec.config.ignition.config.merge[64]: the config names more than 64 others; merge some"]
    );
    let large = config(&[("/a", &"x".repeat(limits::DOCUMENT_BYTES / 3))], &[]);
    let refused = refusals(&config(&[], &[large.clone(), large.clone(), large]));
    assert_eq!(
        refused,
        ["spec.config.ignition.config.merge[2]: all merged configs together exceed 16777216 bytes"]
    );
}

#[test]
fn unknown_keys_of_merged_configs_are_listed() {
    let unknown = json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": [{"name": "x.service", "enable": true}]}});
    let unused = resolved(&config(&[], &[unknown])).unwrap().unused;
    assert_eq!(unused, ["spec.config.ignition.config.merge[0].systemd.units[0].enable"]);
}

fn remote_file(contents: &Value) -> Value {
    json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/opt/tool", "contents": contents}]}})
}

fn wanted(document: &Value, remote: &RemoteContents) -> Vec<RemoteSource> {
    match resolve(document.clone(), remote) {
        Err(UnresolvedConfig::Unfetched(sources)) => sources,
        other => panic!("{other:?}"),
    }
}

#[test]
fn contents_with_a_hash_are_listed_and_then_embedded() {
    let verification = json!({"hash": ABC});
    let document =
        remote_file(&json!({"source": REMOTE, "compression": "gzip", "verification": verification}));
    let [source] = &wanted(&document, &RemoteContents::default())[..] else { panic!("one source") };
    assert_eq!(
        (source.purpose.as_str(), source.hash.to_string().as_str(), source.is_compressed),
        ("/opt/tool", ABC, true)
    );
    assert_eq!(source.url.path(), "/tool?signature=very-secret");
    let mut remote = RemoteContents::default();
    remote.insert(source.hash.clone(), b"abc".to_vec());
    let document = resolve(document, &remote).unwrap().document;
    let contents = &document["storage"]["files"][0]["contents"];
    assert_eq!(*contents, json!({"source": "data:;base64,YWJj", "verification": {"hash": ABC}}));
    assert!(!document.to_string().contains("very-secret"));
}

#[test]
fn contents_that_cannot_be_fetched_are_refused_by_name() {
    let verification = json!({"hash": ABC});
    let field = "spec.config.storage.files[0].contents";
    for (contents, expected) in [
        (
            json!({"source": REMOTE, "verification": verification, "httpHeaders": [{"name": "a", "value": "very-secret"}]}),
            ".httpHeaders: headers are not sent",
        ),
        (
            json!({"source": REMOTE, "verification": verification, "compression": "xz"}),
            ".compression: the compression",
        ),
        (
            json!({"source": REMOTE, "verification": {"hash": "sha512-"}}),
            ".verification.hash: expected `sha512-`",
        ),
        (
            json!({"source": "https://me:very-secret@host/a", "verification": verification}),
            ".source: a user name",
        ),
        (
            json!({"source": "data:,abd", "verification": verification}),
            ".verification.hash: the contents have",
        ),
    ] {
        let [refused] = &refusals(&remote_file(&contents))[..] else { panic!("one refusal") };
        assert!(
            refused.starts_with(&format!("{field}{expected}")) && !refused.contains("very-secret"),
            "{refused}"
        );
    }
}

#[test]
fn remote_configs_come_first_and_their_files_after_the_merge() {
    let verification = json!({"hash": ABC});
    let mut outer = remote_file(&json!({"source": "https://host/replaced", "verification": verification}));
    let child = config(&[("/opt/tool", "new")], &[]);
    let bytes = child.to_string().into_bytes();
    let hash: ContentHash = format!("sha512-{}", "0".repeat(128)).parse().unwrap();
    let hash = hash.verify(&bytes).unwrap_err().found;
    outer["ignition"]["config"] =
        json!({"merge": [{"source": "http://host/child.ign", "verification": {"hash": hash.to_string()}}]});
    outer["storage"]["files"].as_array_mut().unwrap().push(
        json!({"path": "/opt/kept", "contents": {"source": "https://host/kept", "verification": verification}}),
    );
    let mut remote = RemoteContents::default();
    let [first] = &wanted(&outer, &remote)[..] else { panic!("the config alone") };
    assert_eq!(
        (first.purpose.as_str(), first.url.to_string().as_str()),
        ("ignition.config.merge[0]", "http://host/child.ign")
    );
    remote.insert(hash, bytes);
    // The outer hash stays where the merged config gives contents without one: Ignition merges them field by field.
    let refused = resolve(outer.clone(), &remote).unwrap_err().refusals().to_string();
    assert!(refused.contains("once merged, storage.files[0].contents.verification.hash"), "{refused}");
    outer["storage"]["files"][0]["contents"] = json!({"source": "https://host/without-hash"});
    let refused = resolve(outer.clone(), &remote).unwrap_err().refusals().to_string();
    assert!(refused.starts_with("spec.config.storage.files[0].contents.source"), "{refused}");
    outer["storage"]["files"].as_array_mut().unwrap().remove(0);
    let [kept] = &wanted(&outer, &remote)[..] else { panic!("the file that is kept") };
    assert_eq!(kept.purpose, "/opt/kept");
}

#[test]
fn embedded_contents_are_limited_however_often_they_are_named() {
    let one = json!({"path": "/a", "contents": {"source": REMOTE, "verification": {"hash": ABC}}});
    let document = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": vec![one; 20]}});
    let mut remote = RemoteContents::default();
    remote.insert(ABC.parse().unwrap(), vec![0; 1 << 20]);
    let refused = resolve(document, &remote).unwrap_err().refusals().to_string();
    assert!(refused.contains("files[12].contents: the contents from URLs, embedded"), "{refused}");
}
