//! What boots and is not healthy: left and held, or kept where nobody may go back. The machine has run for longer than
//! a probation, so each judgement is the last.

use testbed::booted::{
    config::{ensure_is, sick, whole},
    host::{Host, settled},
};

const HEALTH: &str = "/etc/flameholder/config.d/health.toml";

/// Generation two runs, and was judged.
fn judged(config: &str, host: &Host) -> testbed::booted::host::Boot {
    host.arm(config, None);
    host.shut_down();
    host.boot()
}

#[test]
fn it_is_left_and_held_until_told() {
    let host = settled("one");
    let two = host.config(sick("two").json());
    let boot = judged(&two, &host);
    assert!(
        boot.is_rebooted() && boot.settle.stderr.contains("check 10-app: it ended with exit code 1"),
        "{boot:?}"
    );
    assert!(boot.settle.stderr.contains("the app is sick"), "{boot:?}");
    host.power_cut();
    host.boot().ensure_fine();
    ensure_is(&host, "one", "two");
    let status = host.status();
    assert_eq!(
        (&status["blocked"]["config"], &status["blocked"]["attempts"]),
        (&"rendered-two".into(), &1.into())
    );
    assert!(status["blocked"]["reason"].as_str().unwrap().contains("the app is sick"), "{status}");
    assert!(status["pending"].is_null(), "{status}");
    for place in ["motd.d/60-flameholder.motd", "issue.d/60-flameholder.issue"] {
        let notice = std::fs::read_to_string(host.path("run").join(place)).unwrap();
        assert!(notice.contains("rendered-two is held") && notice.contains("flameholder retry"), "{notice}");
    }
    let refused = host.apply(&two, None);
    assert!(refused.code == Some(1) && refused.stderr.contains("flameholder retry"), "{refused:?}");
    host.reboot();
    ensure_is(&host, "one", "two");
    // Told so, it is tried again.
    host.must(["flameholder", "retry"]);
    assert!(!host.path("run/motd.d/60-flameholder.motd").exists());
    assert!(judged(&two, &host).is_rebooted());
    host.power_cut();
    host.boot().ensure_fine();
    // And another target is gone to at once.
    let three = host.config(whole("three").json());
    host.update(&three, None);
    ensure_is(&host, "three", "one");
    assert!(host.status()["blocked"].is_null());
}

#[test]
fn where_nobody_may_go_back_it_stays_and_can_be_replaced() {
    let host = settled("one");
    let config = sick("two").file_with_mode(HEALTH, 0o644, "[health]\ngo-back = \"never\"\n");
    let boot = judged(&host.config(config.json()), &host);
    assert!(
        boot.settle.code == Some(2) && boot.settle.stderr.contains("stays, although it was not healthy"),
        "{boot:?}"
    );
    ensure_is(&host, "two", "one");
    let status = host.status();
    assert_eq!(
        (&status["bootCheck"]["phase"], status["blocked"].is_null()),
        (&"unhealthy".into(), true),
        "{status}"
    );
    host.reboot_as_it_is();
    ensure_is(&host, "two", "one");
    host.update(&host.config(whole("three").json()), None);
    ensure_is(&host, "three", "two");
    assert_eq!(host.status()["bootCheck"]["phase"], "healthy");
}

#[test]
fn what_is_not_judged_yet_is_not_replaced_and_boots_are_counted() {
    let host = settled("one");
    let long = "[health]\nprobation = 4000000000\nboots = 2\n";
    let two = host.config(whole("two").file_with_mode(HEALTH, 0o644, long).json());
    host.arm(&two, None);
    host.shut_down();
    let activated = |host: &Host| {
        host.start(0);
        host.run(["flameholder", "activate"])
    };
    assert_eq!(activated(&host).code, Some(0));
    let three = host.config(whole("three").json());
    let early = host.apply(&three, None);
    assert!(early.code == Some(75) && early.stderr.contains("flameholder rollback"), "{early:?}");
    let again = host.apply(&two, None);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
    // It goes down each time before anybody judged it.
    host.power_cut();
    assert_eq!(activated(&host).code, Some(0));
    host.power_cut();
    let third = activated(&host);
    assert!(third.code == Some(1) && third.stderr.contains("it was booted 2 times"), "{third:?}");
    host.power_cut();
    host.boot().ensure_fine();
    ensure_is(&host, "one", "two");
    assert!(host.status()["blocked"]["reason"].as_str().unwrap().contains("booted 2 times"));
}

#[test]
fn an_older_entry_that_runs_instead_ends_it() {
    for has_booted in [false, true] {
        let host = settled("one");
        let two = host.config(whole("two").json());
        host.arm(&two, None);
        host.shut_down();
        if has_booted {
            host.start(0);
            host.must(["flameholder", "activate"]);
            host.power_cut();
        }
        // Its kernel did not come up, or somebody chose so.
        host.start(1);
        host.must(["flameholder", "activate"]);
        let refused = host.apply(&two, None);
        assert!(
            refused.code == Some(1) && refused.stderr.contains("older deployment was chosen"),
            "{refused:?}"
        );
        host.must(["flameholder", "recover"]);
        let status = host.status();
        assert_eq!(
            (&status["blocked"]["config"], status["pending"].is_null()),
            (&"rendered-two".into(), true)
        );
    }
}
