//! Generations that boot and fail their boot check: rolled back and blocked, or kept where rollback is off.

use testbed::booted::config::{assert_config, full_config, unhealthy_config};
use testbed::booted::host::{Host, confirmed_host};

const HEALTH: &str = "/etc/flameholder/config.d/health.toml";

/// Generation two is booted and checked.
fn booted_and_checked(config: &str, host: &Host) -> testbed::booted::host::Boot {
    host.stage_update(config, None);
    host.shut_down();
    host.boot()
}

#[test]
fn unhealthy_generation_is_rolled_back_and_blocked_until_retry() {
    let host = confirmed_host("one");
    let two = host.config(unhealthy_config("two").json());
    let boot = booted_and_checked(&two, &host);
    assert!(
        boot.requests_reboot() && boot.confirm_boot.stderr.contains("check 10-app: failed with exit code 1"),
        "{boot:?}"
    );
    // The output of a check program can hold secrets: only root reads it, where it asks for it.
    assert!(!boot.confirm_boot.stderr.contains("the app is sick"), "{boot:?}");
    assert!(!host.run_ok(["flameholder", "status"]).contains("the app is sick"));
    let shown = host.run_ok(["flameholder", "status", "--show-contents=yes"]);
    assert!(shown.contains("end of the output of check 10-app:\n    the app is sick\n"), "{shown}");
    assert!(!host.status().to_string().contains("the app is sick"));
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    let status = host.status();
    assert_eq!(
        (&status["blocked"]["config"], &status["blocked"]["attempts"]),
        (&"rendered-two".into(), &1.into())
    );
    let reason = status["blocked"]["reason"].as_str().unwrap();
    assert!(reason.ends_with("check 10-app: failed with exit code 1"), "{reason}");
    assert!(status["pending"].is_null(), "{status}");
    // The output is kept with the block, and shown no more readily.
    assert_eq!(status["blocked"]["failedChecks"][0]["check"], "check 10-app", "{status}");
    assert!(!status.to_string().contains("the app is sick"), "{status}");
    assert!(!host.run_ok(["flameholder", "status"]).contains("the app is sick"));
    let shown = host.run_ok(["flameholder", "status", "--show-contents=yes"]);
    assert_eq!(
        shown.matches("end of the output of check 10-app:\n    the app is sick\n").count(),
        1,
        "{shown}"
    );
    for place in ["motd.d/60-flameholder.motd", "issue.d/60-flameholder.issue"] {
        let notice = std::fs::read_to_string(host.path("run").join(place)).unwrap();
        assert!(
            notice.contains("rendered-two is blocked") && notice.contains("flameholder retry"),
            "{notice}"
        );
    }
    let refused = host.apply(&two, None);
    assert!(refused.code == Some(1) && refused.stderr.contains("flameholder retry"), "{refused:?}");
    host.reboot();
    assert_config(&host, "one", "two");
    // `retry` ends the block.
    host.run_ok(["flameholder", "retry"]);
    assert!(!host.path("run/motd.d/60-flameholder.motd").exists());
    assert!(booted_and_checked(&two, &host).requests_reboot());
    host.power_cut();
    host.boot().assert_success();
    // Another configuration is applied at once.
    let three = host.config(full_config("three").json());
    host.update(&three, None);
    assert_config(&host, "three", "one");
    assert!(host.status()["blocked"].is_null());
}

#[test]
fn unhealthy_generation_stays_where_rollback_is_off() {
    let host = confirmed_host("one");
    let config =
        unhealthy_config("two").file_with_mode(HEALTH, 0o644, "[boot-check]\nrollback = \"never\"\n");
    let boot = booted_and_checked(&host.config(config.json()), &host);
    assert!(
        boot.confirm_boot.code == Some(2) && boot.confirm_boot.stderr.contains("and is not rolled back"),
        "{boot:?}"
    );
    assert_config(&host, "two", "one");
    let status = host.status();
    assert_eq!(
        (&status["bootCheck"]["phase"], status["blocked"].is_null()),
        (&"unhealthy".into(), true),
        "{status}"
    );
    host.reboot_unchecked();
    assert_config(&host, "two", "one");
    host.update(&host.config(full_config("three").json()), None);
    assert_config(&host, "three", "two");
    assert_eq!(host.status()["bootCheck"]["phase"], "healthy");
}

#[test]
fn unchecked_generation_is_not_replaced_and_its_boots_are_counted() {
    let host = confirmed_host("one");
    let long = "[boot-check]\ntimeout = 4000000000\nboots = 2\n";
    let two = host.config(full_config("two").file_with_mode(HEALTH, 0o644, long).json());
    host.stage_update(&two, None);
    host.shut_down();
    let activated = |host: &Host| {
        host.boot_kernel(0);
        host.run(["flameholder", "activate"])
    };
    assert_eq!(activated(&host).code, Some(0));
    let three = host.config(full_config("three").json());
    let early = host.apply(&three, None);
    assert!(early.code == Some(75) && early.stderr.contains("flameholder rollback"), "{early:?}");
    let again = host.apply(&two, None);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
    // Power is cut each time before the boot check ends.
    host.power_cut();
    assert_eq!(activated(&host).code, Some(0));
    host.power_cut();
    let third = activated(&host);
    assert!(third.code == Some(1) && third.stderr.contains("it was booted 2 times"), "{third:?}");
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    assert!(host.status()["blocked"]["reason"].as_str().unwrap().contains("booted 2 times"));
}

#[test]
fn booting_older_entry_blocks_the_pending_generation() {
    for has_booted in [false, true] {
        let host = confirmed_host("one");
        let two = host.config(full_config("two").json());
        host.stage_update(&two, None);
        host.shut_down();
        if has_booted {
            host.boot_kernel(0);
            host.run_ok(["flameholder", "activate"]);
            host.power_cut();
        }
        // Its kernel did not boot, or an operator chose the older entry.
        host.boot_kernel(1);
        host.run_ok(["flameholder", "activate"]);
        let refused = host.apply(&two, None);
        assert!(
            refused.code == Some(1) && refused.stderr.contains("previous deployment was booted"),
            "{refused:?}"
        );
        host.run_ok(["flameholder", "recover"]);
        let status = host.status();
        assert_eq!(
            (&status["blocked"]["config"], status["pending"].is_null()),
            (&"rendered-two".into(), true)
        );
    }
}
