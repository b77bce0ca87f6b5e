//! `render`: merge a pool's MachineConfigs from files, render real configs again, and check properties of
//! arbitrary merges.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use flameholder::core::config::decode::decode;
use flameholder::core::config::host_config::HostConfig;
use flameholder::core::config::machine_config::{MachineConfig, parse, parse_object};
use flameholder::core::config::render::{PoolName, ReleaseImages, RenderedName, render};
use proptest::prelude::*;
use serde_json::{Value, json};
use testbed::model::rendered::real_configs;
use testbed::model::run::{Outcome, flameholder};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/render").join(name)
}

fn rendered(options: &[&str], files: &[PathBuf]) -> Outcome {
    let options = options.iter().map(OsString::from);
    let files = files.iter().map(|file| file.as_os_str().to_owned());
    flameholder([OsString::from("render")].into_iter().chain(options).chain(files))
}

fn document(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn order_of_files_does_not_change_the_rendered_config() {
    let expected = fs::read_to_string(fixture("rendered-infra.json")).unwrap();
    let names = ["00-release.yaml", "10-infra.yaml", "11-infra-link.yaml", "50-workers.json"];
    for start in 0..names.len() {
        let mut files = names.map(fixture);
        files.rotate_left(start);
        for _ in 0..2 {
            let outcome = rendered(&["--pool", "infra", "-o", "json"], &files);
            assert_eq!(outcome.stdout, expected, "{files:?}: {}", outcome.stderr);
            assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
            files.reverse();
        }
    }
}

#[test]
fn ignition_and_butane_configs_are_merged_by_the_names_of_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    write("motd", "from a file\n");
    let base = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: 10-base}\nspec: {config: \
        {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/a, mode: 0600, contents: {source: 'data:,a'}}, \
        {path: /etc/motd, mode: 0600, contents: {source: 'data:,a'}}]}}}\n";
    let butane = "variant: fcos\nversion: 1.5.0\nkernel_arguments: {should_exist: [nosmt]}\n\
        storage: {files: [{path: /etc/motd, contents: {local: motd}}]}\n";
    let ignition =
        r#"{"ignition": {"version": "3.3.0"}, "storage": {"links": [{"path": "/etc/a", "target": "b"}]}}"#;
    let files = [write("20 Site.bu", butane), write("10-base.yaml", base), write("30-link.ign", ignition)];
    let merged = document(&rendered(&["--name", "site", "-o", "json"], &files));
    assert_eq!(merged["spec"]["kernelArguments"], json!(["nosmt"]));
    let storage = &merged["spec"]["config"]["storage"];
    // The path of a later document is wholly its own: the mode of 10-base is gone.
    assert_eq!(storage["files"].as_array().unwrap().len(), 1, "{storage}");
    assert_eq!(storage["files"][0]["path"], "/etc/motd");
    assert_eq!(storage["files"][0].get("mode"), None, "{storage}");
    assert_eq!(storage["links"][0]["target"], "b");
    let merged = write("site.json", &merged.to_string());
    fs::create_dir(folder.path().join("host")).unwrap();
    let explained = |path: &str| {
        let (root, desired) = (folder.path().join("host"), merged.as_os_str());
        let options = ["--root".as_ref(), root.as_os_str(), "--desired".as_ref(), desired];
        let plan = ["plan".as_ref(), "--explain".as_ref(), path.as_ref()];
        flameholder(plan.into_iter().chain(options)).stdout
    };
    assert!(explained("/etc/motd").contains(", from 20-site.bu, over 10-base"), "{}", explained("/etc/motd"));
    assert!(explained("/etc/a").contains(", from 30-link.ign, over 10-base"), "{}", explained("/etc/a"));
    let host = folder.path().join("host");
    let root = [OsStr::new("--root"), host.as_os_str()];
    let applied = flameholder(
        [OsStr::new("apply"), OsStr::new("--desired"), merged.as_os_str()].into_iter().chain(root),
    );
    assert_eq!(applied.code, Some(0), "{applied:?}");
    fs::write(host.join("etc/motd"), "changed\n").unwrap();
    let verified = flameholder([OsStr::new("verify")].into_iter().chain(root));
    let line = verified.stdout.lines().find(|line| line.contains("/etc/motd")).unwrap();
    assert!(line.ends_with("20-site.bu"), "{verified:?}");
    let twice = rendered(&[], &[files[0].clone(), files[0].clone()]);
    assert!(twice.stderr.contains("20-site.bu is given more than once"), "{twice:?}");
    let broken = write(
        "40.bu",
        "variant: fcos\nversion: 1.5.0\nstorage: {luks: [{name: a}], files: [{path: /etc/b, contnts: {}}]}\n",
    );
    let refused = rendered(&[], &[broken]);
    assert_eq!(refused.code, Some(78), "{refused:?}");
    for part in [
        "40.bu:3:11: storage.luks: only Ignition does this",
        "40.bu:3:53: storage.files[0].contnts: unknown key; did you mean `contents`?",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[test]
fn release_images_come_from_options_and_are_overridden_by_layering() {
    let options =
        ["--os-image", "registry.example.net/os:5", "--extensions-image", "registry.example.net/ext:5"];
    let release = document(&rendered(&options, &[fixture("00-release.yaml")]));
    assert_eq!(release["spec"]["osImageURL"], "registry.example.net/os:5");
    assert_eq!(release["spec"]["baseOSExtensionsContainerImage"], "registry.example.net/ext:5");
    let layered = document(&rendered(&options, &[fixture("00-release.yaml"), fixture("50-workers.json")]));
    assert!(layered["spec"]["osImageURL"].as_str().unwrap().contains("/layered@"), "{layered}");
    assert_eq!(layered["spec"]["baseOSExtensionsContainerImage"], "registry.example.net/ext:5");
}

#[test]
fn real_configs_rendered_again_are_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    for file in real_configs() {
        let original: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let outcome = rendered(&[], std::slice::from_ref(&file));
        assert_eq!(document(&outcome)["spec"], original["spec"], "{}", file.display());
        let again = folder.path().join("again.json");
        fs::write(&again, &outcome.stdout).unwrap();
        let plan = flameholder([
            "plan".as_ref(),
            "--exit-code".as_ref(),
            "--current".as_ref(),
            file.as_os_str(),
            "--desired".as_ref(),
            again.as_os_str(),
        ]);
        assert_eq!(plan.code, Some(0), "{}: {plan:?}", file.display());
        assert_eq!(rendered(&[], &[again]).stdout, outcome.stdout, "{}", file.display());
    }
}

#[test]
fn real_config_split_into_parts_renders_to_itself() {
    for file in real_configs() {
        let whole = parse(&fs::read(&file).unwrap()).unwrap();
        let parts = taken_apart(&whole.document);
        assert!(parts.len() > 50, "{}: only {} parts", file.display(), parts.len());
        let together = merged(&parts);
        assert_eq!(together.document["spec"], whole.document["spec"], "{}", file.display());
    }
}

/// One MachineConfig for each file, unit and user of `whole`, and a last one for the rest of its spec.
fn taken_apart(whole: &Value) -> Vec<MachineConfig> {
    let mut rest = whole["spec"].clone();
    let ignition = rest["config"].take();
    let mut specs = Vec::new();
    for (section, list) in [("storage", "files"), ("systemd", "units"), ("passwd", "users")] {
        for item in ignition[section][list].as_array().into_iter().flatten() {
            specs.push(json!({"config": {"ignition": {"version": "3.5.0"}, section: {list: [item]}}}));
        }
    }
    specs.push(rest);
    let named = specs.iter().enumerate().map(|(index, spec)| config(&format!("{index:04}"), "worker", spec));
    named.collect()
}

fn config(name: &str, role: &str, spec: &Value) -> MachineConfig {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": role}},
        "spec": spec,
    });
    parse_object(object, "").unwrap()
}

fn merged(configs: &[MachineConfig]) -> MachineConfig {
    let pool: PoolName = "worker".parse().unwrap();
    render(configs, &RenderedName::OfPool(pool), &ReleaseImages::default()).unwrap()
}

#[test]
fn errors_name_the_file_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let object = |name: &str, spec: &str| {
        format!(
            r#"{{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
        )
    };
    let bad = object("20-bad", r#"{"kernelType":"tickless"}"#);
    let list = written(
        "list.json",
        &format!(r#"{{"kind":"List","items":[{},{{"kind":"Pod"}}]}}"#, object("10", "{}")),
    );
    let empty = written("empty.json", r#"{"kind":"List","items":[]}"#);
    let good = written("good.json", &object("10-good", "{}"));
    let bad = written("bad.json", &bad);
    for (options, files, code, mentions) in [
        (vec![], vec![list], 78, vec!["list.json", "items[1].kind"]),
        (vec![], vec![empty], 78, vec!["no MachineConfig"]),
        (vec![], vec![good.clone(), bad], 78, vec!["bad.json:1:", "spec.kernelType"]),
        (vec![], vec![good.clone(), good.clone()], 78, vec!["metadata.name", "10-good"]),
        (vec![], vec![folder.path().join("missing.json")], 1, vec!["missing.json"]),
        (vec![], vec![], 64, vec!["FILE"]),
        (vec!["--pool", "Workers"], vec![good.clone()], 64, vec!["--pool", "lower-case"]),
        (vec!["--os-image", "oci:/d"], vec![good.clone()], 64, vec!["--os-image", "oci:/d"]),
        (vec!["-o", "text"], vec![good], 64, vec!["json"]),
    ] {
        let outcome = rendered(&options, &files);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(code), ""),
            "{files:?}: {}",
            outcome.stderr
        );
        for mention in mentions {
            assert!(outcome.stderr.contains(mention), "{mention}: {}", outcome.stderr);
        }
    }
}

#[test]
fn standard_input_is_read_and_unknown_keys_are_warned_about() {
    let text = fs::read_to_string(fixture("50-workers.json")).unwrap();
    let flavoured = text.replace(r#""version": "3.2.0""#, r#""version": "3.2.0", "flavour": 1"#);
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_flameholder"));
    let output = command.args(["render", "-"]).write_stdin(flavoured).output().unwrap();
    let plain = rendered(&[], &[fixture("50-workers.json")]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), plain.stdout);
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("ignition.flavour of 50-workers is unknown"), "{warning}");
}

/// Entry for one file in a generated MachineConfig.
#[derive(Debug, Clone)]
struct Mention {
    path: u8,
    source: Option<u16>,
    mode: Option<u16>,
}

/// Generated MachineConfig: true if its role is `worker`, and its files.
type Part = (bool, Vec<Mention>);

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let mention = (0..6_u8, any::<Option<u16>>(), proptest::option::of(0..0o777_u16));
    let mention = mention.prop_map(|(path, source, mode)| Mention { path, source, mode });
    prop::collection::vec((any::<bool>(), prop::collection::vec(mention, 0..5)), 1..6)
}

/// Build the MachineConfig with that number; of several entries for one path the first is kept.
fn of_part(number: usize, (worker, mentions): &Part) -> MachineConfig {
    let mut files = BTreeMap::new();
    for mention in mentions {
        files.entry(mention.path).or_insert_with(|| {
            let source = mention.source.map(|source| format!("data:,{source}"));
            json!({"path": format!("/etc/{}", mention.path), "mode": mention.mode, "contents": {"source": source}})
        });
    }
    let files: Vec<&Value> = files.values().collect();
    let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}},
        "kernelArguments": [format!("n={number}")]});
    config(&format!("{number}"), if *worker { "worker" } else { "infra" }, &spec)
}

/// Expected contents and mode by path: those of the last MachineConfig, in order of merging, that lists them.
fn last_entries(parts: &[Part]) -> BTreeMap<String, (Vec<u8>, u32)> {
    let workers = parts.iter().filter(|(worker, _)| *worker);
    let others = parts.iter().filter(|(worker, _)| !worker);
    let mut words: BTreeMap<String, (Option<u16>, Option<u16>)> = BTreeMap::new();
    for (_, mentions) in workers.chain(others) {
        for (index, mention) in mentions.iter().enumerate() {
            if mentions[..index].iter().any(|earlier| earlier.path == mention.path) {
                continue;
            }
            let (source, mode) = words.entry(format!("/etc/{}", mention.path)).or_default();
            *source = mention.source.or(*source);
            *mode = mention.mode.or(*mode);
        }
    }
    let decoded = |(source, mode): (Option<u16>, Option<u16>)| {
        let contents = source.map(|source| source.to_string()).unwrap_or_default();
        (contents.into_bytes(), mode.map_or(0o644, u32::from))
    };
    words.into_iter().map(|(path, said)| (path, decoded(said))).collect()
}

fn contents_and_modes(config: &HostConfig) -> BTreeMap<String, (Vec<u8>, u32)> {
    let files = config.files.iter();
    files.map(|(path, file)| (path.to_string(), (file.contents.clone(), file.mode))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn last_entry_wins_in_any_order_of_arguments(parts in parts(), turns in 0..6_usize) {
        let configs: Vec<MachineConfig> =
            parts.iter().enumerate().map(|(number, part)| of_part(number, part)).collect();
        let whole = merged(&configs);
        prop_assert_eq!(contents_and_modes(&decode(&whole).unwrap()), last_entries(&parts));

        let mut turned = configs;
        let length = turned.len();
        turned.rotate_left(turns % length);
        turned.swap(0, length / 2);
        prop_assert_eq!(&merged(&turned).document, &whole.document);

        let again = merged(std::slice::from_ref(&whole));
        prop_assert_eq!(&again.document, &whole.document);
    }
}
