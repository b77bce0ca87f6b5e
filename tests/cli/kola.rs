//! The tests of `tests/kola`, as kola reads them: metadata, scripts and Butane configs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flameholder::core::config::received::served;
use flameholder::core::config::settings::{FragmentFile, Settings};
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::paths;
use serde::Deserialize;
use serde_json::Value;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
/// Bytes of a script in which kola looks for metadata.
const METADATA_LIMIT: usize = 8192;

/// Metadata of a test: the keys that kola knows (`externalTestMeta` in its `harness.go`); it refuses others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "fields that are only checked for their names and types")]
struct TestMetadata {
    description: String,
    architectures: Option<String>,
    platforms: Option<String>,
    distros: Option<String>,
    tags: Option<String>,
    required_tag: Option<String>,
    additional_disks: Option<Vec<String>>,
    primary_disk: Option<String>,
    inject_container: Option<bool>,
    min_memory: Option<u32>,
    min_disk: Option<u32>,
    additional_nics: Option<u32>,
    append_kernel_args: Option<String>,
    append_firstboot_kernel_args: Option<String>,
    exclusive: Option<bool>,
    timeout_min: Option<u32>,
    conflicts: Option<Vec<String>>,
    allow_config_warnings: Option<bool>,
    no_instance_creds: Option<bool>,
    creation_date: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    kola: TestMetadata,
}

/// Files below `tests/kola`, without those of `data`, which kola copies only.
fn files() -> Vec<PathBuf> {
    let mut pending = vec![Path::new(REPOSITORY).join("tests/kola")];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("data") {
                pending.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files
}

/// Executable files, which kola takes for tests.
fn scripts() -> Vec<PathBuf> {
    let is_executable = |path: &PathBuf| path.metadata().unwrap().permissions().mode() & 0o111 != 0;
    files().into_iter().filter(is_executable).collect()
}

/// The block of metadata: from the first line with the mark to the last one in a row.
fn metadata(text: &str) -> String {
    let text = &text[..text.len().min(METADATA_LIMIT)];
    let lines = text.lines().skip_while(|line| !line.starts_with("## "));
    let lines = lines.take_while(|line| line.starts_with("## ")).map(|line| format!("{}\n", &line[3..]));
    lines.collect()
}

#[test]
fn metadata_have_only_what_kola_knows() {
    let scripts = scripts();
    assert!(scripts.len() > 9, "{scripts:?}");
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        let read: Result<Metadata, _> = serde_saphyr::from_str(&metadata(&text));
        let Metadata { kola } = read.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        // kola takes such a line for the beginning of metadata in JSON, and refuses both.
        assert!(!text.lines().any(|line| line.starts_with("# kola:")), "{}", script.display());
        // Tests that share a machine must not reboot it.
        let reboots = text.contains("autopkgtest-reboot");
        assert!(!(reboots && kola.exclusive == Some(false)), "{}", script.display());
    }
}

#[test]
fn scripts_have_no_fault_that_shellcheck_finds() {
    let mut shellcheck = Command::new("shellcheck");
    shellcheck.args(["--external-sources", "--source-path"]).arg(REPOSITORY).args(scripts());
    let checked =
        shellcheck.arg(Path::new(REPOSITORY).join("tests/kola/data/steps.sh")).arg("--shell=bash").output();
    let checked = checked.expect("shellcheck is installed: `cargo xtask setup` does it");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn each_folder_has_the_steps_that_its_scripts_source() {
    let steps = fs::read(Path::new(REPOSITORY).join("tests/kola/data/steps.sh")).unwrap();
    for script in scripts() {
        let linked = script.with_file_name("data/steps.sh");
        assert!(
            fs::read(&linked).is_ok_and(|text| text == steps),
            "{} does not lead to them",
            linked.display()
        );
    }
}

#[test]
fn butane_configs_are_valid() {
    let mut configs: Vec<PathBuf> =
        files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "bu")).collect();
    assert!(configs.len() > 3, "{configs:?}");
    configs.push(Path::new(REPOSITORY).join("ignition/example.bu"));
    for path in configs {
        let shown = path.display();
        let config: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&config["variant"], &config["version"]), (&"fcos".into(), &"1.5.0".into()), "{shown}");
        let files = config["storage"]["files"].as_array().unwrap();
        let inline = |name: &str| {
            let file = files.iter().find(|file| file["path"] == name)?;
            file["contents"]["inline"].as_str().map(str::to_owned)
        };
        if let Some(encapsulated) = inline(paths::ENCAPSULATED) {
            let content = inline(paths::CONTENT).unwrap();
            let document = served::configuration(encapsulated.as_bytes(), Some(content.as_bytes())).unwrap();
            assert_eq!(document["metadata"]["name"], "final", "{shown}");
        }
        let of_ours = "/etc/flameholder/config.d/";
        for file in files.iter().filter(|file| file["path"].as_str().unwrap().starts_with(of_ours)) {
            let fragment = FragmentFile {
                path: ManagedPath::parse(file["path"].as_str().unwrap()).unwrap(),
                bytes: file["contents"]["inline"].as_str().unwrap().as_bytes().to_vec(),
            };
            Settings::of(&[fragment]).unwrap();
        }
    }
}
