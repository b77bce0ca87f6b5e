//! What the machine-config-daemon leaves on a host, and what it asks of one that it goes on with: the paths, names and
//! rules of `pkg/daemon/{file_writers,on_disk_validation}.go`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::Value;

use testbed::booted::{config::Config, host::Host};

const OWN: &str = "machine-config-daemon";

/// A file as a config lists it: path, text, mode.
struct Listed {
    path: String,
    text: Vec<u8>,
    mode: u32,
}

fn listed(config: &Value) -> Vec<Listed> {
    let files = config["spec"]["config"]["storage"]["files"].as_array().cloned().unwrap_or_default();
    let file = |file: Value| {
        let source = file["contents"]["source"].as_str().unwrap().to_owned();
        let text = data_url::DataUrl::process(&source).unwrap().decode_to_vec().unwrap().0;
        let mode = u32::try_from(file["mode"].as_u64().unwrap_or(0o644)).unwrap();
        Listed { path: file["path"].as_str().unwrap().to_owned(), text, mode }
    };
    files.into_iter().map(file).collect()
}

fn units(config: &Value) -> Vec<(String, String)> {
    let units = config["spec"]["config"]["systemd"]["units"].as_array().cloned().unwrap_or_default();
    let text = |unit: &Value, key: &str| unit[key].as_str().unwrap().to_owned();
    units.iter().map(|unit| (text(unit, "name"), text(unit, "contents"))).collect()
}

/// Where a path of the host is on this machine.
pub(crate) fn place(host: &Host, path: &str) -> PathBuf {
    match (path.strip_prefix("/etc/"), path.strip_prefix("/usr/local/")) {
        (Some(path), _) => host.etc(path),
        (_, Some(path)) => host.var("usrlocal").join(path),
        _ => host.var(path.strip_prefix("/var/").unwrap()),
    }
}

pub(crate) fn copy(path: &str) -> String {
    format!("{OWN}/orig{path}.mcdorig")
}

pub(crate) fn stamp(path: &str) -> String {
    format!("{OWN}/noorig{path}.mcdnoorig")
}

/// Applies a config without kernel arguments, as its first on this host.
pub(crate) fn apply(host: &Host, config: &Config) {
    let config = config.json();
    for Listed { path, text, mode } in listed(config) {
        let place = place(host, &path);
        match fs::read_to_string(&place) {
            // `cp -a`, of what is shipped.
            Ok(before) => host.write_etc(&copy(&path), &before),
            Err(_) => host.write_etc(&stamp(&path), ""),
        }
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, text).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
    }
    for (name, text) in units(config) {
        host.write_etc(&format!("systemd/system/{name}"), &text);
        let link = host.etc(&format!("systemd/system/multi-user.target.wants/{name}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(format!("/etc/systemd/system/{name}"), link).unwrap();
    }
    host.write_etc(&format!("{OWN}/currentconfig"), &config.to_string());
    host.write_etc(&format!("{OWN}/currentimage"), "");
}

/// Everything that its validation of the disk looks at, against what it believes was applied last. Returns that.
pub(crate) fn validate(host: &Host) -> Value {
    let config: Value =
        serde_json::from_str(&host.read_etc(&format!("{OWN}/currentconfig")).unwrap()).unwrap();
    assert_eq!(host.read_etc(&format!("{OWN}/currentimage")).unwrap_or_default(), "");
    for Listed { path, text, mode } in listed(&config) {
        let place = place(host, &path);
        let status = fs::symlink_metadata(&place).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(status.permissions().mode(), 0o100_000 | mode, "mode mismatch for file: {path}");
        assert_eq!(fs::read(&place).unwrap(), text, "content mismatch for file {path}");
    }
    for (name, text) in units(&config) {
        assert_eq!(host.read_etc(&format!("systemd/system/{name}")), Some(text), "{name}");
        let link = host.etc(&format!("systemd/system/multi-user.target.wants/{name}"));
        assert!(link.symlink_metadata().is_ok(), "{name} is enabled");
    }
    let arguments = host.booted().arguments;
    for wanted in config["spec"]["kernelArguments"].as_array().into_iter().flatten() {
        assert!(arguments.iter().any(|found| wanted == found), "missing expected kernel argument {wanted}");
    }
    config
}

/// Deletes a file that a config does not list any longer: where it says that nothing was there, the file goes; else what
/// it kept comes back, as long as the image ships something there.
pub(crate) fn leave(host: &Host, path: &str) {
    let place = place(host, path);
    if fs::remove_file(host.etc(&stamp(path))).is_ok() {
        return fs::remove_file(place).unwrap();
    }
    let copy = host.etc(&copy(path));
    let is_shipped = host.booted().root.join("usr").join(path.trim_start_matches('/')).exists();
    match fs::read(&copy) {
        Ok(before) if is_shipped => fs::write(place, before).unwrap(),
        _ => fs::remove_file(place).unwrap(),
    }
    drop(fs::remove_file(copy));
}
