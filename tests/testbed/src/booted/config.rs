//! Configs that tests apply to booted hosts.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::booted::host::{Host, record};
use crate::model::document::{data_url, file, with_files};

/// File name of the drop-in in which the machine-config-operator puts the variables of a proxy.
const EMPTY_DROP_IN: &str = "10-mco-default-env.conf";

/// Builder of a MachineConfig.
#[derive(Clone)]
pub struct Config(Value);

impl Config {
    /// Start with these files, mode 0644.
    pub fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let files: Vec<Value> = files.iter().map(|(path, text)| file(path, text)).collect();
        Self(with_files(name, &files))
    }

    pub fn kernel_arguments(mut self, arguments: &[&str]) -> Self {
        self.0["spec"]["kernelArguments"] = json!(arguments);
        self
    }

    /// Add an authorized key of the user `core`.
    pub fn key(mut self, key: &str) -> Self {
        self.0["spec"]["config"]["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": [key]}]});
        self
    }

    /// Add an enabled service.
    pub fn unit(mut self, name: &str) -> Self {
        let text = format!("[Service]\nExecStart=/bin/true {name}\n[Install]\nWantedBy=multi-user.target\n");
        self.0["spec"]["config"]["systemd"] =
            json!({"units": [{"name": name, "enabled": true, "contents": text}]});
        self
    }

    /// Add an empty drop-in of `crio.service`, as a cluster without a proxy renders it.
    pub fn empty_drop_in(mut self) -> Self {
        let unit = json!({"name": "crio.service", "dropins": [{"name": EMPTY_DROP_IN, "contents": ""}]});
        let systemd = &mut self.0["spec"]["config"]["systemd"];
        match systemd["units"].as_array_mut() {
            Some(units) => units.push(unit),
            None => *systemd = json!({"units": [unit]}),
        }
        self
    }

    /// Add a file with this mode.
    pub fn file_with_mode(mut self, path: &str, mode: u32, text: &str) -> Self {
        let file = json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": data_url(text.as_bytes())}});
        self.0["spec"]["config"]["storage"]["files"].as_array_mut().unwrap().push(file);
        self
    }

    /// Set FIPS mode.
    pub fn fips(mut self, mode: bool) -> Self {
        self.0["spec"]["fips"] = json!(mode);
        self
    }

    pub fn json(&self) -> &Value {
        &self.0
    }
}

/// Config with an entry of every kind, each with this text.
pub fn full_config(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/app/a.conf", text)])
        .file_with_mode("/usr/local/bin/tool", 0o755, text)
        .file_with_mode(&format!("/etc/app/{text}.conf"), 0o600, text)
        .kernel_arguments(&["quiet", &format!("app={text}")])
        .key(&format!("ssh-ed25519 AAAA {text}"))
        .unit(&format!("app-{text}.service"))
}

/// The same config with a health check that fails.
pub fn unhealthy_config(text: &str) -> Config {
    full_config(text).file_with_mode(
        "/etc/flameholder/health.d/10-app",
        0o755,
        "#!/bin/sh\necho the app is sick\nexit 1\n",
    )
}

/// Files and units below `/etc` that are not those of the full config with `text`.
pub fn etc_differences(host: &Host, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if host.read_etc("app/a.conf").as_deref() != Some(text) {
        wrong.push(format!("app/a.conf: {:?}", host.read_etc("app/a.conf")));
    }
    let names = |directory: &str, prefix: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(host.etc(directory)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(prefix)).collect()
    };
    let unit = format!("app-{text}.service");
    for (directory, prefix, expected) in [
        ("app", "", BTreeSet::from(["a.conf".to_owned(), format!("{text}.conf")])),
        ("systemd/system", "app-", BTreeSet::from([unit.clone()])),
        ("systemd/system/multi-user.target.wants", "app-", BTreeSet::from([unit])),
    ] {
        let found = names(directory, prefix);
        if found != expected {
            wrong.push(format!("{directory}: {found:?}"));
        }
    }
    wrong
}

/// Text of the config that the kernel arguments name; `None` on a host without one.
pub fn booted_text(host: &Host) -> Option<String> {
    let arguments = host.booted().arguments;
    arguments.iter().find_map(|argument| argument.strip_prefix("app=").map(str::to_owned))
}

/// Panics unless the host has every entry of that config with `text`, and none with `other`.
pub fn assert_config(host: &Host, text: &str, other: &str) {
    let content = Some(text.to_owned());
    assert_eq!(host.read_etc("app/a.conf"), content);
    assert_eq!(host.read_etc(&format!("app/{text}.conf")), content);
    assert_eq!(host.read_etc(&format!("app/{other}.conf")), None);
    assert_eq!(host.read_var("usrlocal/bin/tool"), content);
    for (name, is_there) in [(text, true), (other, false)] {
        let link = host.etc(&format!("systemd/system/multi-user.target.wants/app-{name}.service"));
        assert_eq!(link.symlink_metadata().is_ok(), is_there, "{}", link.display());
        let unit = host.etc(&format!("systemd/system/app-{name}.service"));
        assert_eq!(unit.exists(), is_there, "{}", unit.display());
        let argument = format!("app={name}");
        assert_eq!(host.booted().arguments.contains(&argument), is_there, "{argument}");
    }
    let record = record(&host.booted());
    assert_eq!(record["config"], format!("rendered-{text}"));
    assert_eq!(record["generation"], host.booted().generation());
    assert_eq!(record["deployment"]["commit"], host.booted().id().0);
    assert_eq!(record["deployment"]["serial"], host.booted().id().1);
}
