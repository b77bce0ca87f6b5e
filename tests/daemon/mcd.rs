//! Imitation of the machine-config-daemon on a host: files that it writes, and its validation of the disk.
//! Paths, names and rules are those of `pkg/daemon/{file_writers,on_disk_validation}.go`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use testbed::booted::config::Config;
use testbed::booted::host::Host;

/// Directory of the machine-config-daemon below `/etc`.
const DIRECTORY: &str = "machine-config-daemon";

/// File in a config.
struct ConfigFile {
    path: String,
    text: Vec<u8>,
    mode: u32,
}

fn files(config: &Value) -> Vec<ConfigFile> {
    let files = config["spec"]["config"]["storage"]["files"].as_array().cloned().unwrap_or_default();
    let file = |file: Value| {
        let source = file["contents"]["source"].as_str().unwrap().to_owned();
        let text = data_url::DataUrl::process(&source).unwrap().decode_to_vec().unwrap().0;
        let mode = u32::try_from(file["mode"].as_u64().unwrap_or(0o644)).unwrap();
        ConfigFile { path: file["path"].as_str().unwrap().to_owned(), text, mode }
    };
    files.into_iter().map(file).collect()
}

/// Names and texts of the units that have any.
fn units(config: &Value) -> Vec<(String, String)> {
    let units = config["spec"]["config"]["systemd"]["units"].as_array().cloned().unwrap_or_default();
    let text = |unit: &Value, key: &str| Some(unit[key].as_str()?.to_owned());
    units.iter().filter_map(|unit| Some((text(unit, "name")?, text(unit, "contents")?))).collect()
}

/// Paths below `/etc` of the drop-ins, which are all empty.
fn empty_drop_ins(config: &Value) -> Vec<String> {
    let units = config["spec"]["config"]["systemd"]["units"].as_array().cloned().unwrap_or_default();
    let of_unit = |unit: &Value| {
        let drop_ins = unit["dropins"].as_array().cloned().unwrap_or_default();
        let path = |drop_in: &Value| {
            assert_eq!(drop_in["contents"], "", "{drop_in}");
            let (unit, name) = (unit["name"].as_str().unwrap(), drop_in["name"].as_str().unwrap());
            format!("systemd/system/{unit}.d/{name}")
        };
        drop_ins.iter().map(path).collect::<Vec<_>>()
    };
    units.iter().flat_map(of_unit).collect()
}

/// Path on this machine of a path on the host.
pub(crate) fn host_path(host: &Host, path: &str) -> PathBuf {
    match (path.strip_prefix("/etc/"), path.strip_prefix("/usr/local/")) {
        (Some(path), _) => host.etc(path),
        (_, Some(path)) => host.var("usrlocal").join(path),
        _ => host.var(path.strip_prefix("/var/").unwrap()),
    }
}

/// Path below `/etc` of the original content of a managed file.
pub(crate) fn original(path: &str) -> String {
    format!("{DIRECTORY}/orig{path}.mcdorig")
}

/// Path below `/etc` of the mark that a managed file had no original.
pub(crate) fn no_original(path: &str) -> String {
    format!("{DIRECTORY}/noorig{path}.mcdnoorig")
}

/// Apply a config without kernel arguments to a host that has none yet.
pub(crate) fn apply(host: &Host, config: &Config) {
    let config = config.json();
    for ConfigFile { path, text, mode } in files(config) {
        let target = host_path(host, &path);
        match fs::read_to_string(&target) {
            // Original: the content of the image.
            Ok(before) => host.write_etc(&original(&path), &before),
            Err(_) => host.write_etc(&no_original(&path), ""),
        }
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(&target, text).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
    }
    for (name, text) in units(config) {
        host.write_etc(&format!("systemd/system/{name}"), &text);
        let link = host.etc(&format!("systemd/system/multi-user.target.wants/{name}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(format!("/etc/systemd/system/{name}"), link).unwrap();
    }
    // Ignition writes an empty file for a drop-in without contents, and that file stays.
    for drop_in in empty_drop_ins(config) {
        host.write_etc(&drop_in, "");
    }
    host.write_etc(&format!("{DIRECTORY}/currentconfig"), &config.to_string());
    host.write_etc(&format!("{DIRECTORY}/currentimage"), "");
}

/// Validate the disk against the current config, as the machine-config-daemon does when it starts. Return
/// that config.
pub(crate) fn validate(host: &Host) -> Value {
    let config: Value =
        serde_json::from_str(&host.read_etc(&format!("{DIRECTORY}/currentconfig")).unwrap()).unwrap();
    assert_eq!(host.read_etc(&format!("{DIRECTORY}/currentimage")).unwrap_or_default(), "");
    for ConfigFile { path, text, mode } in files(&config) {
        let target = host_path(host, &path);
        let status = fs::symlink_metadata(&target).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(status.permissions().mode(), 0o100_000 | mode, "mode mismatch for file: {path}");
        assert_eq!(fs::read(&target).unwrap(), text, "content mismatch for file {path}");
    }
    for (name, text) in units(&config) {
        assert_eq!(host.read_etc(&format!("systemd/system/{name}")), Some(text), "{name}");
        let link = host.etc(&format!("systemd/system/multi-user.target.wants/{name}"));
        assert!(link.symlink_metadata().is_ok(), "{name} is enabled");
    }
    for drop_in in empty_drop_ins(&config) {
        assert_eq!(host.read_etc(&drop_in).unwrap_or_default(), "", "content mismatch for file {drop_in}");
    }
    let arguments = host.booted().arguments;
    for argument in config["spec"]["kernelArguments"].as_array().into_iter().flatten() {
        assert!(
            arguments.iter().any(|found| argument == found),
            "missing expected kernel argument {argument}"
        );
    }
    config
}

/// Remove a file that is no longer managed. Its original is restored if the image has a file at the path.
pub(crate) fn remove(host: &Host, path: &str) {
    let target = host_path(host, path);
    if fs::remove_file(host.etc(&no_original(path))).is_ok() {
        return fs::remove_file(target).unwrap();
    }
    let original = host.etc(&original(path));
    let is_shipped = host.booted().root.join("usr").join(path.trim_start_matches('/')).exists();
    match fs::read(&original) {
        Ok(before) if is_shipped => fs::write(target, before).unwrap(),
        _ => fs::remove_file(target).unwrap(),
    }
    drop(fs::remove_file(original));
}
