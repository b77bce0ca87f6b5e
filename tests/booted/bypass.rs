//! The staged deployment finalized by somebody else, without its configuration.

use serde_json::Value;

use testbed::booted::{
    config::{assert_config, full_config},
    host::{Host, confirmed_host},
};

/// Generation two is armed and finalized behind our back.
fn bypassed() -> (Host, String) {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    host.run_ok(["ostree", "admin", "finalize-staged"]);
    host.power_cut();
    (host, two)
}

#[test]
fn it_is_bound_where_it_runs_and_rebooted_once() {
    let (host, two) = bypassed();
    host.boot_kernel(0);
    assert_eq!(host.read_etc("app/two.conf"), None, "it has booted without its configuration");
    let activate = host.run(["flameholder", "activate"]);
    assert!(activate.stderr.contains("the configuration is now written"), "{activate:?}");
    // Nobody is there to reboot; what counts is that this is no success: the workload must not start.
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
fn it_is_left_and_held_the_second_time() {
    let (host, two) = bypassed();
    host.boot_kernel(0);
    let unbound = host.booted();
    host.write_etc("app/two.conf/in-the-way", "somebody's own");
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
