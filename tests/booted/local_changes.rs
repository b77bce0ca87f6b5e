//! Drift policy `merge` across updates with a reboot.

use std::fs;

use osimage::Os;
use serde_json::json;
use testbed::booted::config::{Config, full_config, unhealthy_config};
use testbed::booted::host::{Host, confirmed_host};

const PATH: &str = "chrony.conf";
const POLICY: &str = "[[drift.path]]\npath = \"/etc/chrony.conf\"\npolicy = \"merge\"\n";

fn config(name: &str, text: &str) -> Config {
    full_config(name).file_with_mode("/etc/chrony.conf", 0o644, text)
}

/// Host whose confirmed config has the file, and whose settings have it merged.
fn host() -> Host {
    let host = confirmed_host("zero");
    host.update(&host.config(config("one", "server a\ndriftfile d\nlogdir l\n").json()), None);
    host.write_etc("flameholder/config.d/10-drift.toml", POLICY);
    host
}

#[test]
fn local_changes_until_the_shutdown_are_in_the_next_generation() {
    let host = host();
    host.write_etc(PATH, "server a\ndriftfile d\nlogdir l\nallow x\n");
    let two = host.config(config("two", "server b\ndriftfile d\nlogdir l\n").json());
    let staged = host.apply(&two, None);
    assert_eq!(staged.code, Some(0), "{staged:?}");
    assert!(staged.stdout.contains("local changes kept"), "{staged:?}");
    host.write_etc(PATH, "server a\ndriftfile d\nlogdir l\nallow x\nallow y\n");
    host.reboot();
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server b\ndriftfile d\nlogdir l\nallow x\nallow y\n"));
    host.assert_no_drift();
    // A change that contradicts the staged config gives way to it: the shutdown has to end.
    let three = host.config(config("three", "server c\ndriftfile d\nlogdir l\n").json());
    host.stage_update(&three, None);
    host.write_etc(PATH, "server mine\n");
    host.reboot();
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server c\ndriftfile d\nlogdir l\n"));
    host.assert_no_drift();
}

#[test]
fn policy_until_the_reboot_keeps_the_update_away() {
    let host = confirmed_host("zero");
    host.update(&host.config(config("one", "server a\ndriftfile d\nlogdir l\n").json()), None);
    fs::write(host.path("run/flameholder/config.d/10-drift.toml"), POLICY).unwrap();
    host.write_etc(PATH, "server a\ndriftfile d\nlogdir l\nallow x\n");
    let two = host.config(config("two", "server b\ndriftfile d\nlogdir l\n").json());
    let refused = host.apply(&two, None);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is not `merge` after the update"), "{refused:?}");
    assert!(!host.is_staged());
    // One that the new generation has holds after the reboot. The policies of the time of the shutdown count.
    host.write_etc("flameholder/config.d/10-drift.toml", POLICY);
    host.stage_update(&two, None);
    host.write_etc("flameholder/config.d/10-drift.toml", "");
    host.reboot();
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server b\ndriftfile d\nlogdir l\n"));
    host.assert_no_drift();
}

#[test]
fn settings_of_the_next_image_count() {
    const SHIPPED: &str = "usr/etc/flameholder/config.d/20-drift.toml";
    const RECORDED: &str = "server a\ndriftfile d\nlogdir l\n";
    let host = Host::install(Os::new(1).with_file(SHIPPED, POLICY));
    host.update(&host.config(config("one", RECORDED).json()), None);
    host.write_etc(PATH, "server a\ndriftfile d\nlogdir l\nallow x\n");
    host.assert_no_drift();
    // libostree would take the fragment away with the image that has it.
    let two = host.config(config("two", "server b\ndriftfile d\nlogdir l\n").json());
    let refused = host.apply(&two, Some(&host.image(&Os::new(2))));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is not `merge` after the update"), "{refused:?}");
    assert!(!host.is_staged());
    let image = host.image(&Os::new(3).with_file("usr/lib/flameholder/config.d/30-drift.toml", POLICY));
    host.update(&two, Some(&image));
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server b\ndriftfile d\nlogdir l\nallow x\n"));
    host.assert_no_drift();
}

#[test]
fn file_that_a_config_appends_to_takes_the_text_of_the_next_image() {
    let host = confirmed_host("zero");
    host.write_etc("flameholder/config.d/10-drift.toml", POLICY);
    let mut config = full_config("one").json().clone();
    let appended = json!({"path": "/etc/chrony.conf", "append": [{"source": "data:,allow%20x%0A"}]});
    config["spec"]["config"]["storage"]["files"].as_array_mut().unwrap().push(appended);
    let config = host.config(&config);
    host.update(&config, None);
    let text = || host.read_etc(PATH).unwrap();
    assert!(text().ends_with("maxsamples 10\nallow x\n"), "{}", text());
    host.update(&config, Some(&host.image(&Os::new(3))));
    assert!(text().ends_with("maxsamples 11\nallow x\n"), "{}", text());
    host.assert_no_drift();
    host.write_etc(PATH, &format!("# mine\n{}", text()));
    host.update(&config, Some(&host.image(&Os::new(4))));
    assert!(text().starts_with("# mine\n") && text().ends_with("maxsamples 12\nallow x\n"), "{}", text());
    host.assert_no_drift();
}

#[test]
fn rollback_is_not_kept_from_by_local_changes() {
    let host = host();
    host.update(&host.config(config("two", "server b\ndriftfile d\nlogdir l\n").json()), None);
    host.write_etc(PATH, "server mine\ndriftfile d\nlogdir l\n");
    let refused = host.apply(&host.config(config("three", "server c\ndriftfile d\nlogdir l\n").json()), None);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("cannot be merged with the desired config"), "{refused:?}");
    assert!(!host.is_staged());
    let back = host.run(["flameholder", "rollback"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(back.stderr.contains("the local changes of /etc/chrony.conf contradict"), "{back:?}");
    host.reboot();
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server a\ndriftfile d\nlogdir l\n"));
    host.assert_no_drift();
}

#[test]
fn boot_check_accepts_local_changes() {
    let host = host();
    host.write_etc(PATH, "server a\nmine\n");
    host.update(&host.config(config("two", "server a\ndriftfile d\nlogdir l\n").json()), None);
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server a\nmine\n"));
    let three = unhealthy_config("three");
    let three = three.file_with_mode("/etc/chrony.conf", 0o644, "server a\ndriftfile d\nlogdir l\n");
    host.stage_update(&host.config(three.json()), None);
    host.reboot_unchecked();
    host.reboot_unchecked();
    assert_eq!(host.read_etc(PATH).as_deref(), Some("server a\nmine\n"));
    host.assert_no_drift();
}
