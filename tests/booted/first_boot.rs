//! The first boot of a node, from the files that Ignition leaves to the start of the workload.

use std::fs;

use osimage::Os;
use serde_json::{Value, json};
use testbed::booted::config::{Config, assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked, record};
use testbed::model::run::Outcome;

const ENCAPSULATED: &str = "ignition-machine-config-encapsulated.json";
/// Drop-in without contents, for which Ignition writes an empty file.
const EMPTY_DROP_IN: &str = "systemd/system/crio.service.d/10-mco-default-env.conf";
const PRESET: &str = "systemd/system-preset/20-ignition.preset";

/// A host after Ignition, whose config server serves this configuration with version `os` of the image, or without
/// an image.
pub(crate) fn ignited(config: &Config, os: Option<u32>) -> Host {
    let host = Host::install(Os::new(1));
    let mut object = config.clone().empty_drop_in().json().clone();
    if let Some(os) = os {
        object["spec"]["osImageURL"] = host.image(&Os::new(os)).into();
    }
    ignite(&host, &object);
    host
}

/// Writes what Ignition writes: files, units, a preset, and the config server's files.
fn ignite(host: &Host, object: &Value) {
    let text = object["metadata"]["name"].as_str().unwrap().trim_start_matches("rendered-").to_owned();
    host.write_etc("machine-id", "0123456789abcdef0123456789abcdef\n");
    host.write_etc("app/a.conf", &text);
    host.write_etc(&format!("app/{text}.conf"), &text);
    host.run_ok(["chmod", "600", &format!("/etc/app/{text}.conf")]);
    fs::create_dir_all(host.var("usrlocal/bin")).unwrap();
    fs::write(host.var("usrlocal/bin/tool"), &text).unwrap();
    host.run_ok(["chmod", "755", "/usr/local/bin/tool"]);
    host.write_etc(EMPTY_DROP_IN, "");
    host.write_etc(PRESET, &format!("enable app-{text}.service\n"));
    let mut hollow = object.clone();
    hollow["spec"]["config"] = json!({"ignition": {"version": "3.4.0"}});
    host.write_etc("mcs-machine-config-content.json", &object.to_string());
    host.write_etc(ENCAPSULATED, &hollow.to_string());
}

fn first_boot(host: &Host) -> Outcome {
    host.run(["flameholder", "firstboot"])
}

/// `firstboot` reports completion and leaves none of its own files.
fn ensure_complete(host: &Host, text: &str) {
    let outcome = first_boot(host);
    let is_reported =
        outcome.stderr.contains(&format!("the first boot is complete: rendered-{text} is applied"));
    assert!(outcome.code == Some(0) && is_reported, "{outcome:?}");
    assert!(host.read_etc(ENCAPSULATED).is_none() && host.etc(&format!("{ENCAPSULATED}.bak")).exists());
    assert_eq!(host.read_etc(PRESET), None, "Ignition's presets do not apply to later configurations");
    let state = host.var("lib/flameholder/first-boot");
    assert!(!state.exists(), "{} remains", state.display());
    host.assert_no_drift();
    let again = first_boot(host);
    assert!(again.code == Some(0) && again.stdout.contains("no first boot"), "{again:?}");
}

fn ensure_reboot_requested(outcome: &Outcome) {
    let reboots = outcome.stderr.contains("rebooting: the first boot continues in the deployment of");
    assert!(outcome.code == Some(1) && reboots, "{outcome:?}");
}

#[test]
fn first_boot_needs_one_reboot() {
    let host = ignited(&full_config("one"), Some(2));
    let before = first_boot(&host);
    ensure_reboot_requested(&before);
    assert!(host.etc(ENCAPSULATED).exists(), "the first boot is not complete yet");
    let boot = host.reboot();
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_config(&host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists());
    ensure_complete(&host, "one");
    let record = record(&host.booted());
    assert_eq!(record["originals"], json!([]), "{record}");
    assert!(!host.var("lib/flameholder/originals").exists(), "no pre-image of a file outside /etc is kept");
    // The next update removes the files that Ignition wrote for this configuration.
    host.update(&host.config(full_config("two").json()), None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn first_boot_is_claimed_before_its_config_is_read() {
    let host = Host::install(Os::new(1));
    let claim = host.path("run/flameholder/owns-first-boot");
    assert!(!claim.exists());
    // A config that is refused is still this agent's to complete: MCD would apply what this host must not take.
    host.write_etc(ENCAPSULATED, "{");
    let script = "flameholder firstboot & pid=$!
        until test -e /run/flameholder/owns-first-boot || ! kill -0 $pid; do sleep 0.1; done
        kill $pid";
    host.run_ok(["sh", "-c", script]);
    assert!(claim.exists());
}

#[test]
fn first_boot_without_changes_does_not_reboot() {
    let config = Config::new("rendered-one", &[("/etc/app/a.conf", "one")])
        .file_with_mode("/etc/app/one.conf", 0o600, "one")
        .file_with_mode("/usr/local/bin/tool", 0o755, "one")
        .kernel_arguments(&["rw"]);
    let host = ignited(&config, None);
    let before = host.booted();
    ensure_complete(&host, "one");
    assert!(!host.is_staged() && host.default() == before);
    assert_eq!(host.read_etc(EMPTY_DROP_IN).as_deref(), Some(""));
    let record = record(&host.booted());
    assert_eq!((&record["config"], &record["originals"]), (&"rendered-one".into(), &json!([])));
    // The next configuration may remove the argument, which this one lists.
    let boot = host.update(&host.config(full_config("two").json()), None);
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_config(&host, "two", "one");
    assert_eq!(host.read_etc(EMPTY_DROP_IN), None);
}

#[test]
fn entry_that_no_host_takes_is_left_out_by_name() {
    let config = Config::new("rendered-one", &[("/etc/app/a.conf", "one"), ("/etc/machine-id", "other")])
        .file_with_mode("/etc/app/one.conf", 0o600, "one")
        .file_with_mode("/usr/local/bin/tool", 0o755, "one");
    let host = ignited(&config, None);
    ensure_complete(&host, "one");
    assert_ne!(host.read_etc("machine-id").as_deref(), Some("other"));
    let unsupported = record(&host.booted())["unsupported"].to_string();
    assert!(unsupported.contains("spec.config.storage.files[1].path: /etc/machine-id"), "{unsupported}");
    let refused = host.apply(&host.config(config.json()), None);
    assert!(refused.code == Some(78) && refused.stderr.contains("/etc/machine-id"), "{refused:?}");
}

#[test]
fn differences_that_need_no_reboot_are_written() {
    let config = Config::new("rendered-one", &[("/etc/app/a.conf", "one")])
        .file_with_mode("/etc/app/one.conf", 0o600, "one")
        .file_with_mode("/var/lib/kubelet/config.json", 0o600, "secret");
    let host = ignited(&config, None);
    ensure_complete(&host, "one");
    assert_eq!(host.read_var("lib/kubelet/config.json").as_deref(), Some("secret"));
    assert!(!host.is_staged());
}

#[test]
fn first_boot_continues_after_power_cuts() {
    let host = ignited(&full_config("one"), Some(2));
    // After unlocking, more often than a staged generation is tried elsewhere, and after the reboot but before completion.
    for _ in 0..4 {
        ensure_reboot_requested(&first_boot(&host));
        host.power_cut();
        host.boot_kernel(0);
        host.run_ok(["flameholder", "activate"]);
        host.run_ok(["flameholder", "recover"]);
    }
    ensure_reboot_requested(&first_boot(&host));
    assert_eq!(host.shut_down().unwrap().code, Some(0));
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
    host.power_cut();
    host.boot().assert_success();
    ensure_complete(&host, "one");
    assert_config(&host, "one", "two");
}

#[test]
fn obstacle_is_reported_once_and_retried() {
    let host = ignited(&full_config("one"), Some(2));
    let attempt = |host: &Host| host.run(["timeout", "8", "flameholder", "firstboot"]);
    let good = host.read_etc("mcs-machine-config-content.json").unwrap();
    let other = good.replace("rendered-one", "rendered-two");
    for (content, expected) in
        [("{", "mcs-machine-config-content.json:1:1: not valid JSON"), (&other, "rendered-two")]
    {
        host.write_etc("mcs-machine-config-content.json", content);
        let outcome = attempt(&host);
        let times = outcome.stderr.matches("cannot be completed with this config;").count();
        assert!(outcome.code == Some(124) && times == 1 && outcome.stderr.contains(expected), "{outcome:?}");
    }
    host.write_etc("mcs-machine-config-content.json", &good);
    let images = host.path("media/images");
    fs::rename(&images, host.path("media/elsewhere")).unwrap();
    let outcome = attempt(&host);
    assert!(outcome.code == Some(124) && outcome.stderr.contains("retrying"), "{outcome:?}");
    fs::rename(host.path("media/elsewhere"), &images).unwrap();
    ensure_reboot_requested(&first_boot(&host));
    host.reboot();
    ensure_complete(&host, "one");
}

#[test]
fn unhealthy_first_boot_is_not_rolled_back() {
    let host = ignited(&testbed::booted::config::unhealthy_config("one"), Some(2));
    ensure_reboot_requested(&first_boot(&host));
    host.shut_down();
    let boot = host.boot();
    assert!(boot.confirm_boot.code == Some(2) && boot.confirm_boot.stderr.contains("first boot"), "{boot:?}");
    ensure_complete(&host, "one");
    assert_config(&host, "one", "two");
}

#[test]
fn apply_before_first_boot_is_an_ordinary_update() {
    let host = ignited(&full_config("one"), None);
    let outcome = host.apply(&host.config(full_config("one").json()), None);
    assert_unlocked(&outcome);
}
