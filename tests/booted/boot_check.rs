//! Edges of the boot check: a rollback that is outstanding or impossible, slow and interrupted checks, locks of other
//! programs, unreadable state.

use std::fs;

use rustix::fs::{FlockOperation, fcntl_lock};
use testbed::booted::config::{assert_config, full_config, unhealthy_config};
use testbed::booted::host::{Host, confirmed_host};

use crate::soak::obstacle::run_with;
use crate::soak::step::Obstacle;

const CHECK: &str = "/etc/flameholder/health.d/10-app";
const SETTINGS: &str = "/etc/flameholder/config.d/health.toml";

/// Host whose next boot is the first one of a generation with this config.
fn updated_host(config: &testbed::booted::config::Config) -> Host {
    let host = confirmed_host("one");
    host.stage_update(&host.config(config.json()), None);
    host.shut_down();
    host
}

#[test]
fn rejected_generation_stays_pending_until_the_other_deployment_booted() {
    let host = updated_host(&unhealthy_config("two"));
    assert!(host.boot().requests_reboot());
    // The reboot does not happen.
    for _ in 0..2 {
        let observed = host.observation();
        assert!(observed.stdout.contains("RollingBack"), "{observed:?}");
        let recovered = host.run_ok(["flameholder", "recover"]);
        assert!(recovered.contains("is rejected") && recovered.contains("outstanding"), "{recovered}");
        let again = host.run(["flameholder", "confirm-boot"]);
        assert!(again.code == Some(1) && again.stderr.contains("rebooting: "), "{again:?}");
        assert!(!host.status()["pending"].is_null());
    }
    // Nor does the next boot lead back: an operator chose the rejected entry.
    host.power_cut();
    let boot = host.boot_entry(1);
    assert!(
        boot.requests_reboot() && boot.activate.stderr.contains("is rolled back and blocked"),
        "{boot:?}"
    );
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    let status = host.status();
    assert_eq!((status["pending"].is_null(), &status["blocked"]["attempts"]), (true, &1.into()), "{status}");
}

#[test]
fn full_disk_does_not_keep_an_unhealthy_generation() {
    let host = updated_host(&unhealthy_config("two"));
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
    // The generation fills the disk before its check fails: neither its rejection nor its block can be written.
    let check = run_with(&host, Some(Obstacle::FullVar(0)), &["confirm-boot"]);
    assert!(check.stderr.contains("rebooting: "), "{check:?}");
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    assert_eq!(host.status()["blocked"]["config"], "rendered-two");
}

#[test]
fn generation_without_rollback_deployment_is_kept_and_serves() {
    for (config, is_healthy) in [(full_config("two"), true), (unhealthy_config("two"), false)] {
        let host = updated_host(&config);
        for _ in 0..3 {
            host.boot_kernel(0);
            host.run_ok(["flameholder", "activate"]);
            host.power_cut();
        }
        // An operator makes room in /boot.
        host.boot_kernel(0);
        host.run_ok(["ostree", "admin", "pin", "--unpin", "1"]);
        host.run_ok(["ostree", "admin", "undeploy", "1"]);
        let boot = host.boot();
        assert!(
            boot.activate.code == Some(0) && boot.activate.stderr.contains("no longer exists"),
            "{boot:?}"
        );
        assert_config(&host, "two", "one");
        assert_eq!(boot.confirm_boot.code, Some(if is_healthy { 0 } else { 2 }), "{boot:?}");
        let status = host.status();
        assert!(status["blocked"].is_null() && status["pending"].is_null() == is_healthy, "{status}");
        if !is_healthy {
            assert!(
                boot.confirm_boot.stderr.contains("the deployment before it no longer exists"),
                "{boot:?}"
            );
            let observed = host.observation();
            assert!(observed.stdout.contains("Unhealthy"), "{observed:?}");
        }
    }
}

#[test]
fn unhealthy_generation_is_unhealthy_while_the_next_one_is_staged() {
    let host = updated_host(&unhealthy_config("two"));
    host.boot_kernel(0);
    host.run_ok(["ostree", "admin", "pin", "--unpin", "1"]);
    host.run_ok(["ostree", "admin", "undeploy", "1"]);
    assert_eq!(host.boot().confirm_boot.code, Some(2));
    host.stage_update(&host.config(full_config("three").json()), None);
    let observed = host.observation();
    assert!(observed.stdout.contains("Unhealthy"), "{observed:?}");
    host.reboot();
    let observed = host.observation();
    assert!(observed.stdout.contains("\"Confirmed\""), "{observed:?}");
}

#[test]
fn generation_whose_var_does_not_mount_is_rolled_back_and_blocked() {
    let host = updated_host(&full_config("two"));
    host.boot_kernel(0);
    // The activation could not run.
    let checked = host.run(["sh", "-c", "mount -t tmpfs -o ro tmpfs /var && flameholder confirm-boot"]);
    assert!(checked.stderr.contains("rebooting: "), "{checked:?}");
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    let status = host.status();
    assert_eq!((status["pending"].is_null(), &status["blocked"]["config"]), (true, &"rendered-two".into()));
}

#[test]
fn confirming_needs_no_lock_of_other_programs() {
    let host = updated_host(&full_config("two"));
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
    let lock = fs::File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(host.sysroot().join("ostree/lock"))
        .unwrap();
    fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let confirmed = host.run(["flameholder", "confirm-boot"]);
    assert_eq!(confirmed.code, Some(0), "{confirmed:?}");
    assert!(confirmed.stderr.contains("the next update tries again"), "{confirmed:?}");
    assert!(host.status()["pending"].is_null());
}

#[test]
fn slow_check_program_has_its_full_time() {
    let slow = full_config("two").file_with_mode(CHECK, 0o755, "#!/bin/sh\nsleep 4\n");
    let host = updated_host(&slow);
    let boot = host.boot().assert_success();
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
}

#[test]
fn boots_that_an_orderly_shutdown_ended_do_not_count() {
    let settings = "[boot-check]\ntimeout = 4000000000\nboots = 2\n";
    let config = unhealthy_config("two").file_with_mode(SETTINGS, 0o644, settings);
    let host = updated_host(&config);
    let stopped = "flameholder confirm-boot & pid=$!
        until test -s /run/flameholder/boot-check.json; do sleep 0.1; done
        kill -TERM $pid; wait $pid";
    for _ in 0..3 {
        host.boot_kernel(0);
        host.run_ok(["flameholder", "activate"]);
        let ended = host.run(["sh", "-c", stopped]);
        assert_eq!(ended.code, Some(143), "{ended:?}");
        host.power_cut();
    }
    // Without an orderly shutdown they count.
    for expected in [0, 0, 1] {
        host.boot_kernel(0);
        assert_eq!(host.run(["flameholder", "activate"]).code, Some(expected));
        host.power_cut();
    }
    host.boot().assert_success();
    assert!(host.status()["blocked"]["reason"].as_str().unwrap().contains("booted 2 times"));
}

#[test]
fn unconfirmed_generation_with_unreadable_record_is_rolled_back() {
    for damaged in ["{\"schema\":0", ""] {
        let host = updated_host(&full_config("two"));
        host.boot_kernel(0);
        fs::write(host.etc("flameholder/generation"), damaged).unwrap();
        let boot = host.boot();
        assert!(
            boot.requests_reboot() && boot.confirm_boot.stderr.contains("failed its boot check"),
            "{boot:?}"
        );
        host.power_cut();
        host.boot().assert_success();
        assert_config(&host, "one", "two");
        assert!(host.status()["blocked"]["reason"].as_str().unwrap().contains("generation record"));
    }
}
