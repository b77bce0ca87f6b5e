//! Soft reboots: another deployment boots, or the same one again, on a kernel that keeps its command line and boot ID.

use std::fs;

use serde_json::json;
use testbed::booted::config::{assert_config, full_config, unhealthy_config};
use testbed::booted::host::{Host, confirmed_host};

const HEALTH: &str = "/etc/flameholder/config.d/health.toml";

/// Host with a staged and unlocked generation.
fn updated_host(config: &testbed::booted::config::Config) -> Host {
    let host = confirmed_host("one");
    host.stage_update(&host.config(config.json()), None);
    host
}

#[test]
fn generation_is_activated_checked_and_confirmed_after_a_soft_reboot() {
    let host = updated_host(&full_config("two"));
    let systemd = host.soft_reboot_kernel(0, 1);
    let activated = host.run_ok(["flameholder", "activate"]);
    assert!(activated.starts_with("activated the files outside /etc of generation"), "{activated}");
    let recovered = host.run_ok(["flameholder", "recover"]);
    let generation = host.booted().generation();
    assert!(recovered.contains(&format!("{} is booted and unconfirmed", &generation[..12])), "{recovered}");
    let request =
        r#"{"job":{"Observe":{"releases_block":false}},"profile":"native","document":0,"policy":null}"#;
    let observed = host.run_ok(["sh", "-c", &format!("echo '{request}' | flameholder work")]);
    assert!(observed.contains("Unconfirmed") && observed.contains("rendered-two"), "{observed}");
    let confirmed = host.run_ok(["flameholder", "confirm-boot"]);
    assert!(confirmed.contains("passed its boot check and is confirmed"), "{confirmed}");
    assert_config(&host, "two", "one");
    // Kernel arguments wait for the kernel, and fail no check until then.
    let status = host.status();
    assert!(status["pending"].is_null() && status["blocked"].is_null(), "{status}");
    assert_eq!(status["deployments"][0]["booted"], true, "{status}");
    let expected = json!({"added": ["app=two"], "removed": ["app=one"]});
    assert_eq!(status["kernelArgumentsAfterReboot"], expected, "{status}");
    let line = "kernel arguments in effect after the next full reboot: added app=two; removed app=one\n";
    for command in ["verify", "status"] {
        let printed = host.run_ok(["flameholder", command]);
        assert!(printed.contains(line), "{printed}");
    }
    drop(systemd);
    host.reboot();
    assert!(host.status()["kernelArgumentsAfterReboot"].is_null());
    host.assert_no_drift();
}

#[test]
fn unhealthy_generation_is_rolled_back_after_a_soft_reboot() {
    let host = updated_host(&unhealthy_config("two"));
    let systemd = host.soft_reboot_kernel(0, 1);
    let boot = host.run_units();
    let said = &boot.confirm_boot.stderr;
    assert!(boot.requests_reboot() && said.contains("is rolled back and blocked"), "{boot:?}");
    drop(systemd);
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    let status = host.status();
    assert!(status["pending"].is_null() && status["blocked"]["config"] == "rendered-two", "{status}");
}

#[test]
fn boot_check_has_its_whole_time_after_a_soft_reboot() {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds = uptime.split('.').next().unwrap();
    let health = format!("[boot-check]\ntimeout = {seconds}\n");
    let host = updated_host(&full_config("two").file_with_mode(HEALTH, 0o644, &health));
    let _systemd = host.soft_reboot_kernel(0, 1);
    host.run_ok(["flameholder", "activate"]);
    let refused = host.apply(&host.config(full_config("three").json()), None);
    assert!(refused.code != Some(0) && refused.stderr.contains("unconfirmed"), "{refused:?}");
}

#[test]
fn workload_waits_for_the_activation_after_a_soft_reboot() {
    let host = updated_host(&full_config("two"));
    assert!(host.path("run/flameholder/activated").exists(), "the activation of the earlier boot");
    let _systemd = host.soft_reboot_kernel(0, 1);
    let tool = host.var("usrlocal/bin/tool");
    fs::remove_file(&tool).unwrap();
    fs::create_dir(&tool).unwrap();
    fs::write(tool.join("x"), "").unwrap();
    assert_ne!(host.run(["flameholder", "activate"]).code, Some(0));
    assert!(host.etc("flameholder/unconfirmed").exists());
    assert!(!host.path("run/flameholder/activated").exists());
}

#[test]
fn staged_generation_that_outlives_a_soft_reboot_is_staged_again() {
    let host = updated_host(&full_config("two"));
    fs::write(host.path("run/ostree/staged-deployment-locked"), "").unwrap();
    let systemd = host.soft_reboot_kernel(0, 1);
    let boot = host.run_units().assert_success();
    assert!(boot.recover.stdout.contains("it is staged again"), "{boot:?}");
    assert_config(&host, "one", "two");
    host.stage_update(&host.config(full_config("two").json()), None);
    drop(systemd);
    host.reboot();
    assert_config(&host, "two", "one");
}

#[test]
fn finalized_generation_is_not_blocked_by_a_soft_reboot_into_its_base() {
    let host = updated_host(&full_config("two"));
    let systemd = host.soft_reboot_kernel(1, 1);
    let boot = host.run_units().assert_success();
    assert!(boot.recover.stdout.contains("boots with the next full reboot"), "{boot:?}");
    assert!(host.status()["blocked"].is_null());
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"));
    drop(systemd);
    host.power_cut();
    let boot = host.boot().assert_success();
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_config(&host, "two", "one");
}

#[test]
fn composefs_root_is_told_by_its_etc_while_the_metadata_is_stale() {
    let host = updated_host(&full_config("two"));
    let _systemd = host.soft_reboot_kernel(0, 1);
    fs::create_dir(host.path("kernel/composefs")).unwrap();
    let activated = host.run_ok(["flameholder", "activate"]);
    let generation = host.booted().generation();
    assert_eq!(activated, format!("activated the files outside /etc of generation {generation}\n"));
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
    let recovered = host.run_ok(["flameholder", "recover"]);
    assert!(recovered.contains("is booted and unconfirmed"), "{recovered}");
}
