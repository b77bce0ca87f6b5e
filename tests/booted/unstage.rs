//! `unstage`: the staged deployment is discarded with everything that was made for it, and a reboot starts the running
//! one again.

use serde_json::Value;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, confirmed_host};
use testbed::model::run::Outcome;

use crate::foreign::stage;

fn unstage(host: &Host, more: &[&str]) -> Outcome {
    host.run([&["flameholder", "unstage"], more].concat())
}

/// Number of objects in the store of files outside `/etc`.
fn objects(host: &Host) -> usize {
    std::fs::read_dir(host.var("lib/flameholder/objects")).unwrap().count()
}

#[test]
fn unlocked_generation_is_discarded_with_its_record_objects_and_ref() {
    let host = confirmed_host("one");
    let before = objects(&host);
    host.stage_update(&host.config(full_config("two").json()), None);
    assert_eq!(host.status()["pending"]["state"], "unlocked");
    assert!(objects(&host) > before, "the generation has objects of its own");
    let refs = || host.run_ok(["ostree", "refs", "--repo=/sysroot/ostree/repo"]);
    assert!(refs().contains("flameholder/staged"), "{}", refs());
    let outcome = unstage(&host, &[]);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("discarded rendered-two"), "{outcome:?}");
    assert!(!host.is_staged());
    assert_eq!(host.status()["pending"], Value::Null);
    assert_eq!(objects(&host), before);
    assert!(!refs().contains("flameholder/staged"), "{}", refs());
    host.reboot();
    assert_eq!(host.booted().generation(), host.status()["deployments"][0]["generation"]["generation"]);
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"));
    host.assert_no_drift();
    host.update(&host.config(full_config("two").json()), None);
    assert_config(&host, "two", "one");
}

/// Holds the host's lock until `unstage` waits for it and another program has used the sysroot.
const NEIGHBOUR: &str = "exec 9>>/var/lib/flameholder/lock && flock 9 || exit 1
flameholder unstage --wait-lock=5m 9>&- 2> /run/media/waiting &
while ! grep -q 'note: waiting' /run/media/waiting; do sleep 0.02; done
timeout 60 ostree admin pin 0 9>&- || exit 2
exec 9>&-
wait $!";

#[test]
fn wait_for_the_lock_leaves_the_sysroot_to_its_holder() {
    let host = confirmed_host("one");
    let outcome = host.run(["sh", "-c", NEIGHBOUR]);
    assert_eq!(
        (outcome.code, outcome.stdout.contains("no deployment is staged")),
        (Some(0), true),
        "{outcome:?}"
    );
}

#[test]
fn nothing_staged_is_success() {
    let host = confirmed_host("one");
    let outcome = unstage(&host, &[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "no deployment is staged\n"));
}

#[test]
fn foreign_deployment_is_named_and_discarded_by_force_alone() {
    let host = confirmed_host("one");
    let commit = stage(&host);
    let refused = unstage(&host, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&commit) && refused.stderr.contains("unstage --force"), "{refused:?}");
    assert!(host.is_staged());
    let forced = unstage(&host, &["--force"]);
    assert!(forced.code == Some(0) && forced.stdout.contains(&commit), "{forced:?}");
    assert!(!host.is_staged());
}

#[test]
fn locked_generation_boots_after_the_same_command_without_the_option() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.run_ok(["flameholder", "apply", "--desired", &two, "--locked"]);
    assert_eq!(host.status()["pending"]["state"], "locked");
    host.reboot();
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"));
    host.run_ok(["flameholder", "apply", "--desired", &two, "--locked"]);
    host.stage_update(&two, None);
    let status = host.status();
    assert_eq!(status["pending"]["state"], "unlocked");
    // The record is written at shutdown; the status knows the generation before.
    let generation = &status["deployments"][0]["generation"];
    assert_eq!(
        (&generation["config"], &generation["atFinalization"]),
        (&"rendered-two".into(), &true.into())
    );
    assert_eq!(generation["generation"], status["pending"]["generation"]);
    host.reboot();
    assert_config(&host, "two", "one");
}

#[test]
fn rollback_refuses_a_previous_generation_that_is_blocked() {
    let host = confirmed_host("one");
    host.update(&host.config(full_config("two").json()), None);
    host.run_ok(["flameholder", "rollback"]);
    host.reboot();
    assert_config(&host, "one", "two");
    let refused = host.run(["flameholder", "rollback"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("rendered-two is blocked"), "{refused:?}");
    host.run_ok(["flameholder", "retry"]);
    host.run_ok(["flameholder", "rollback"]);
    host.reboot();
    assert_config(&host, "two", "one");
}
