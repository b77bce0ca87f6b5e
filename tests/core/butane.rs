//! Butane configs, compared with what Butane makes of them: `tests/fixtures/butane`.

use std::fs;
use std::path::{Path, PathBuf};

use flameholder::core::config::butane::NoLocalFiles;
use flameholder::core::config::decode;
use flameholder::core::config::host_config::HostConfig;
use flameholder::core::plan::plain_ignition;
use flameholder::core::values::refusal::RefusalList;
use flameholder::host::local_directory::LocalDirectory;

/// Configs that Butane translates, and that are refused here: each with the field.
const REFUSED: [(&str, &str); 7] = [
    ("11-kernel-arguments-absent", "spec.config.kernelArguments.shouldNotExist"),
    ("17-disks-filesystem", "storage.disks"),
    ("18-merge-remote", "ignition.config.merge"),
    ("19-merge-inline", "ignition.config.merge"),
    ("20-boot-device", "boot_device"),
    ("21-error-unknown-key", "storage.files[0].contens"),
    ("25-error-decimal-mode", "spec.config.storage.files[0].mode"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/butane")
}

/// Read a config as a host does. The name depends on the text.
fn read(name: &str, ending: &str) -> Result<HostConfig, RefusalList> {
    let bytes = fs::read(folder().join(format!("{name}.{ending}"))).unwrap();
    let local = LocalDirectory::new(&folder().join("files"));
    let received = match ending {
        "bu" => plain_ignition::parse(&bytes, "a", &local)?,
        _ => plain_ignition::parse(&bytes, "a", &NoLocalFiles)?,
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
        assert_eq!(ours, read(&name, "ign"), "{name}");
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn butane_config_without_a_directory_names_the_way_out() {
    let bytes = fs::read(folder().join("02-local-file-owner.bu")).unwrap();
    let refused = plain_ignition::parse(&bytes, "a", &NoLocalFiles).unwrap_err().to_string();
    assert!(refused.starts_with("storage.files[0].contents.local: there is no directory"), "{refused}");
}
