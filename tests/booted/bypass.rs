//! The staged deployment finalized by another program, without its configuration.

use serde_json::Value;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, confirmed_host};

/// Generation two is unlocked, and finalized by `ostree` alone.
fn bypassed() -> (Host, String) {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    host.run_ok(["ostree", "admin", "finalize-staged"]);
    host.power_cut();
    (host, two)
}

#[test]
fn config_is_written_at_activation_and_host_reboots_once() {
    let (host, two) = bypassed();
    host.boot_kernel(0);
    assert_eq!(host.read_etc("app/two.conf"), None, "it has booted without its configuration");
    let activate = host.run(["flameholder", "activate"]);
    assert!(activate.stderr.contains("the configuration is now written"), "{activate:?}");
    // The requested reboot does not take place here. The failure keeps the workload from starting.
    assert_eq!(activate.code, Some(1), "{activate:?}");
    assert_eq!(host.read_etc("app/two.conf").as_deref(), Some("two"));
    host.power_cut();
    let boot = host.boot().assert_success();
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_config(&host, "two", "one");
    host.assert_no_drift();
    let again = host.apply(&two, None);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
}

#[test]
fn second_failure_rolls_back_and_blocks() {
    let (host, two) = bypassed();
    host.boot_kernel(0);
    let unbound = host.booted();
    host.write_etc("app/two.conf/in-the-way", "a local file");
    let first = host.run(["flameholder", "activate"]);
    assert!(first.code == Some(1) && first.stderr.contains("/etc/app/two.conf"), "{first:?}");
    let recover = host.run(["flameholder", "recover"]);
    assert_eq!(recover.code, Some(1), "{recover:?}");
    host.power_cut();
    host.boot_kernel(0);
    assert_eq!(host.booted(), unbound);
    let second = host.run(["flameholder", "activate"]);
    assert!(second.code == Some(1) && second.stderr.contains("is rolled back and blocked"), "{second:?}");
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    let status = host.status();
    assert_eq!((&status["blocked"]["config"], &status["pending"]), (&"rendered-two".into(), &Value::Null));
    let refused = host.apply(&two, None);
    assert!(refused.code == Some(1) && refused.stderr.contains("twice"), "{refused:?}");
    host.run_ok(["flameholder", "retry"]);
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}
