//! The staged deployment finalized by somebody else, without its configuration.

use serde_json::Value;

use testbed::booted::{
    config::{ensure_is, whole},
    host::{Host, settled},
};

/// Generation two is armed and finalized behind our back.
fn bypassed() -> (Host, String) {
    let host = settled("one");
    let two = host.config(whole("two").json());
    host.arm(&two, None);
    host.must(["ostree", "admin", "finalize-staged"]);
    host.power_cut();
    (host, two)
}

#[test]
fn it_is_bound_where_it_runs_and_rebooted_once() {
    let (host, two) = bypassed();
    host.start(0);
    assert_eq!(host.read_etc("app/two.conf"), None, "it has booted without its configuration");
    let activate = host.run(["flameholder", "activate"]);
    assert!(activate.stderr.contains("it has it now"), "{activate:?}");
    // Nobody is there to reboot; what counts is that this is no success: the workload must not start.
    assert_eq!(activate.code, Some(1), "{activate:?}");
    assert_eq!(host.read_etc("app/two.conf").as_deref(), Some("two"));
    host.power_cut();
    let boot = host.boot().ensure_fine();
    assert!(boot.settle.stdout.contains("is settled"), "{boot:?}");
    ensure_is(&host, "two", "one");
    host.ensure_whole();
    let again = host.apply(&two, None);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
}

#[test]
fn it_is_left_and_held_the_second_time() {
    let (host, two) = bypassed();
    host.start(0);
    let unbound = host.booted();
    host.write_etc("app/two.conf/in-the-way", "somebody's own");
    let first = host.run(["flameholder", "activate"]);
    assert!(first.code == Some(1) && first.stderr.contains("/etc/app/two.conf"), "{first:?}");
    let recover = host.run(["flameholder", "recover"]);
    assert_eq!(recover.code, Some(1), "{recover:?}");
    host.power_cut();
    host.start(0);
    assert_eq!(host.booted(), unbound);
    let second = host.run(["flameholder", "activate"]);
    assert!(second.code == Some(1) && second.stderr.contains("is left, and held"), "{second:?}");
    host.power_cut();
    host.boot().ensure_fine();
    ensure_is(&host, "one", "two");
    host.ensure_whole();
    let status = host.status();
    assert_eq!((&status["blocked"]["config"], &status["pending"]), (&"rendered-two".into(), &Value::Null));
    let refused = host.apply(&two, None);
    assert!(refused.code == Some(1) && refused.stderr.contains("twice"), "{refused:?}");
    host.must(["flameholder", "retry"]);
    host.update(&two, None);
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}
