//! What systemd's presets decide in the first boot of an `/etc`, after the configuration said what is enabled.

use std::{fs, process::Command};

use serde_json::json;

use testbed::offline::{Host, small_config};

const PRESET: &str = "etc/systemd/system-preset/00-flameholder.preset";
const LINK: &str = "etc/systemd/system/multi-user.target.wants/own.service";

#[test]
fn they_agree_until_the_machine_has_an_id() {
    let host = Host::new();
    let config = |name: &str, enabled: bool| {
        let mut config = small_config(name, &[("/etc/managed.conf", name)], &[]);
        config["spec"]["config"]["systemd"] = json!({"units": [{"name": "own.service", "enabled": enabled,
            "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}]});
        host.config(&config)
    };
    for (name, enabled) in [("first", true), ("second", false)] {
        let entry = host.update(&config(name, enabled), None);
        let said = fs::read_to_string(entry.at(PRESET)).unwrap();
        let verb = if enabled { "enable" } else { "disable" };
        assert!(said.contains(&format!("\n{verb} own.service\n")), "{said}");
        assert_eq!(host.verify().code, Some(0));
        // Whoever has all presets applied, as a first boot does, changes nothing of it.
        assert_eq!(entry.at(LINK).symlink_metadata().is_ok(), enabled);
        let systemctl = Command::new("systemctl").arg("--root").arg(&entry.root).arg("preset-all").output();
        let output = systemctl.expect("systemctl starts: `cargo xtask setup` installs it");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(entry.at(LINK).symlink_metadata().is_ok(), enabled, "after preset-all");
    }
    let booted = host.default();
    fs::write(booted.at("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let entry = host.update(&config("third", true), None);
    assert!(!entry.at(PRESET).exists(), "the first boot is behind");
    assert_eq!(host.verify().code, Some(0));
}
