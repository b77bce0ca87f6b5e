//! systemd's presets in the first boot of an `/etc`, and the enablement that the configuration sets.

use std::fs;
use std::process::Command;

use serde_json::json;
use testbed::offline::{Host, small_config};

const PRESET: &str = "etc/systemd/system-preset/00-flameholder.preset";
const LINK: &str = "etc/systemd/system/multi-user.target.wants/own.service";

#[test]
fn presets_agree_with_config_until_first_boot_is_over() {
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
        // Applying all presets, as a first boot does, changes nothing.
        assert_eq!(entry.at(LINK).symlink_metadata().is_ok(), enabled);
        let systemctl = Command::new("systemctl").arg("--root").arg(&entry.root).arg("preset-all").output();
        let output = systemctl.expect("systemctl starts: `cargo xtask setup` installs it");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(entry.at(LINK).symlink_metadata().is_ok(), enabled, "after preset-all");
    }
    let booted = host.default();
    fs::write(booted.at("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let entry = host.update(&config("third", true), None);
    assert!(!entry.at(PRESET).exists(), "the first boot is over");
    assert_eq!(host.verify().code, Some(0));
}
