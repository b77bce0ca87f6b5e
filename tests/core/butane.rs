//! Butane configs, compared with what Butane makes of them: `tests/fixtures/butane`.

use std::fs;
use std::path::{Path, PathBuf};

use flameholder::core::config::butane::{LocalFiles, NoLocalFiles};
use flameholder::core::config::decode;
use flameholder::core::config::host_config::HostConfig;
use flameholder::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use flameholder::core::config::received::{self, ReceivedObject, ReferencedContents};
use flameholder::core::values::refusal::RefusalList;
use flameholder::host::local_directory::LocalDirectory;

/// Configs that Butane translates, and that are refused here: each with the field.
const REFUSED: [(&str, &str); 6] = [
    ("11-kernel-arguments-absent", "spec.config.kernelArguments.shouldNotExist"),
    ("17-disks-filesystem", "storage.disks"),
    ("18-merge-remote", "spec.config.ignition.config.merge[0].source"),
    ("20-boot-device", "boot_device"),
    ("21-error-unknown-key", "storage.files[0].contens"),
    ("25-error-decimal-mode", "spec.config.storage.files[0].mode"),
];

/// Hash of an empty file.
const EMPTY: &str = "sha512-cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/butane")
}

/// Parse a config, with the contents that the configs name by their hash: those of an empty file.
fn parse(bytes: &[u8], local: &dyn LocalFiles) -> Result<ReceivedObject, RefusalList> {
    let mut remote = RemoteContents::default();
    remote.insert(EMPTY.parse().unwrap(), Vec::new());
    let referenced = ReferencedContents { local, remote: &remote };
    received::parse(bytes, "a", referenced).map_err(UnresolvedConfig::refusals)
}

/// Read a config as a host does. The name depends on the text.
fn read(name: &str, ending: &str) -> Result<HostConfig, RefusalList> {
    let bytes = fs::read(folder().join(format!("{name}.{ending}"))).unwrap();
    let local = LocalDirectory::new(&folder().join("files"));
    let received = match ending {
        "bu" => parse(&bytes, &local)?,
        _ => parse(&bytes, &NoLocalFiles)?,
    };
    decode::decode(&received.config).map(|config| HostConfig { name: "a".into(), ..config })
}

fn names() -> Vec<String> {
    let entries =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.filter_map(|name| Some(name.strip_suffix(".bu")?.to_owned())).collect();
    names.sort();
    names
}

#[test]
fn translation_is_that_of_butane() {
    let names = names();
    assert!(names.len() > 25, "{names:?}");
    let mut compared = 0;
    for name in names {
        let ours = read(&name, "bu");
        if let Some((_, field)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            let refused = ours.unwrap_err();
            assert!(refused.as_slice().iter().any(|refusal| refusal.field == *field), "{name}: {refused}");
            continue;
        }
        if !folder().join(format!("{name}.ign")).is_file() {
            assert!(ours.is_err(), "{name}: Butane refuses it");
            continue;
        }
        compared += 1;
        assert!(ours.is_ok(), "{name}: {ours:?}");
        assert_eq!(ours, read(&name, "ign"), "{name}");
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn butane_config_without_a_directory_names_the_way_out() {
    let bytes = fs::read(folder().join("02-local-file-owner.bu")).unwrap();
    let refused = parse(&bytes, &NoLocalFiles).unwrap_err().to_string();
    assert!(refused.starts_with("storage.files[0].contents.local: there is no directory"), "{refused}");
}
