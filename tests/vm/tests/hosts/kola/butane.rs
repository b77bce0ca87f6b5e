//! Butane configs of `tests/kola` as Ignition configs for Debian's Ignition: files with inline contents, units and drop-ins.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use vm::config::data_url;

/// Newest Ignition spec version that Debian's Ignition reads.
const IGNITION: &str = "3.3.0";
/// Stand-in for sshd: a unit that is active as soon as a user may log in, and stops when kola stops sshd.
const SSHD: &str = "[Unit]\nAfter=systemd-user-sessions.service\n[Service]\nExecStart=/usr/bin/sleep infinity\n\
    [Install]\nWantedBy=multi-user.target\n";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Butane {
    variant: String,
    version: String,
    #[serde(default)]
    storage: Storage,
    #[serde(default)]
    systemd: Systemd,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Storage {
    files: Vec<File>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    mode: u32,
    contents: Contents,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    inline: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Systemd {
    units: Vec<Unit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unit {
    name: String,
    #[serde(default)]
    enabled: bool,
    contents: Option<String>,
    #[serde(default)]
    dropins: Vec<Dropin>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dropin {
    name: String,
    contents: String,
}

/// Translate a config; a field that is not known here is an error.
pub(crate) fn to_ignition(config: Option<&str>) -> Result<String> {
    let butane: Butane = match config {
        Some(text) => {
            // Butane reads modes in octal, as YAML 1.1 does.
            let mut options = serde_saphyr::Options::default();
            options.legacy_octal_numbers = true;
            serde_saphyr::from_str_with_options(text, options).context("reading config.bu")?
        }
        None => Butane { variant: "fcos".into(), version: "1.5.0".into(), ..Butane::default() },
    };
    ensure!(butane.variant == "fcos" && butane.version == "1.5.0", "config.bu is of another version");
    let files: Vec<Value> = butane
        .storage
        .files
        .iter()
        .map(|file| {
            let contents = json!({"source": data_url(&file.contents.inline)});
            json!({"path": file.path, "mode": file.mode, "overwrite": true, "contents": contents})
        })
        .collect();
    let mut units = butane.systemd.units;
    if !units.iter().any(|unit| unit.name == "sshd.service") {
        let name = "sshd.service".to_owned();
        units.push(Unit { name, enabled: false, contents: None, dropins: Vec::new() });
    }
    for sshd in units.iter_mut().filter(|unit| unit.name == "sshd.service") {
        (sshd.enabled, sshd.contents) = (true, Some(SSHD.to_owned()));
    }
    // Ignition enables units by presets, which systemd does not apply on this machine: its ID is empty, not unset.
    let links = units.iter().filter(|unit| unit.enabled).map(|unit| {
        let path = format!("/etc/systemd/system/multi-user.target.wants/{}", unit.name);
        json!({"path": path, "target": format!("/etc/systemd/system/{}", unit.name)})
    });
    let links: Vec<Value> = links.collect();
    let units: Vec<Value> = units
        .iter()
        .map(|unit| {
            let dropins: Vec<Value> = unit
                .dropins
                .iter()
                .map(|dropin| json!({"name": dropin.name, "contents": dropin.contents}))
                .collect();
            json!({"name": unit.name, "contents": unit.contents, "dropins": dropins})
        })
        .collect();
    let ignition = json!({
        "ignition": {"version": IGNITION},
        "storage": {"files": files, "links": links},
        "systemd": {"units": units},
    });
    Ok(ignition.to_string())
}
