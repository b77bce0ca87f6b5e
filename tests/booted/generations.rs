//! Generations that need no image, changes that need no reboot, and what was staged and is not wanted any more.

use osimage::Os;
use serde_json::Value;

use testbed::{
    booted::{
        config::{Config, ensure_is, whole},
        host::{Host, ensure_asked, record, settled},
    },
    model::snapshot,
};

/// A change there disturbs nothing.
const LIVE: &str = "/etc/nmstate/openshift/cluster.yml";

#[test]
fn files_alone_need_neither_registry_nor_image() {
    let host = settled("one");
    let (commit, serial) = host.booted().id();
    host.remove_media();
    let two = host.config(whole("two").json());
    let boot = host.update(&two, None);
    assert!(boot.settle.stdout.contains("is settled"), "{boot:?}");
    assert_eq!(host.booted().id(), (commit, serial + 1));
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}

#[test]
fn a_change_without_a_reboot_is_followed_by_one_with() {
    let host = settled("one");
    let before = host.booted();
    let live = host.config(whole("one").file_with_mode(LIVE, 0o644, "live").json());
    let outcome = host.apply(&live, None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("nothing has to be rebooted"), "{outcome:?}");
    assert_eq!(host.read_etc("nmstate/openshift/cluster.yml").as_deref(), Some("live"));
    assert_eq!((host.is_staged(), host.default()), (false, before.clone()));
    host.ensure_whole();
    let again = host.apply(&live, None);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
    // It is the same generation for the boot entry.
    let boot = host.reboot();
    assert!(!boot.activate.stdout.contains("not made by flameholder"), "{boot:?}");
    host.ensure_whole();
    let two = host.config(whole("two").file_with_mode(LIVE, 0o644, "staged").json());
    host.update(&two, None);
    ensure_is(&host, "two", "one");
    assert_eq!(host.read_etc("nmstate/openshift/cluster.yml").as_deref(), Some("staged"));
    assert_eq!(std::fs::read_to_string(before.at("etc/nmstate/openshift/cluster.yml")).unwrap(), "live");
    host.ensure_whole();
}

#[test]
fn a_staged_generation_gives_way_to_another_one() {
    let host = settled("one");
    let [two, three] = ["two", "three"].map(|text| host.config(whole(text).json()));
    let never = |config: &str| host.must(["flameholder", "apply", "--desired", config, "--reboot", "never"]);
    never(&two);
    let staged = |host: &Host| {
        let status = host.status();
        let deployments = status["deployments"].as_array().unwrap().clone();
        let staged = deployments.iter().filter(|deployment| deployment["staged"] == true).count();
        (staged, status["pending"]["config"].clone(), status["pending"]["generation"].clone())
    };
    let first = staged(&host);
    assert_eq!((first.0, &first.1), (1, &Value::from("rendered-two")));
    never(&two);
    assert_eq!(staged(&host), first, "it is staged once");
    let said = never(&three);
    assert!(said.contains("rendered-three"), "{said}");
    let second = staged(&host);
    assert_eq!((second.0, &second.1), (1, &Value::from("rendered-three")));
    assert_ne!(second.2, first.2);
    host.arm(&three, None);
    assert_eq!(staged(&host).2, second.2, "it is armed as it was staged");
    host.reboot();
    ensure_is(&host, "three", "two");
    host.ensure_whole();
}

#[test]
fn what_runs_already_takes_the_place_of_what_is_staged() {
    let host = settled("one");
    let [one, two] = ["one", "two"].map(|text| host.config(whole(text).json()));
    host.arm(&two, None);
    let outcome = host.apply(&one, None);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("nothing to do"), "{outcome:?}");
    assert!(!host.is_staged());
    assert_eq!(host.status()["pending"], Value::Null);
    let before = host.booted();
    host.reboot();
    assert_eq!(host.booted(), before);
    ensure_is(&host, "one", "two");
    host.ensure_whole();
}

#[test]
fn what_was_never_armed_is_staged_again() {
    let host = settled("one");
    let two = host.config(whole("two").json());
    host.must(["flameholder", "apply", "--desired", &two, "--reboot", "never"]);
    let before = host.booted();
    let boot = host.reboot();
    assert_eq!(host.booted(), before);
    assert!(boot.recover.stdout.contains("before the generation was armed"), "{boot:?}");
    assert_eq!(host.status()["pending"]["failure"]["kind"], "not-unlocked");
    host.update(&two, None);
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}

#[test]
fn rolling_back_is_a_new_deployment_of_the_old_commit() {
    let host = settled("one");
    let (one, two) = (record(&host.booted()), host.config(whole("two").json()));
    let image = host.image(&Os::new(3));
    host.update(&two, Some(&image));
    ensure_is(&host, "two", "one");
    host.write_etc("late.conf", "written since");
    let outcome = host.run(["flameholder", "rollback"]);
    ensure_asked(&outcome);
    let kept = "stays as it is now, unlike in the deployment that is gone back to:\n  /etc/late.conf\n";
    assert!(outcome.stdout.contains(kept), "{outcome:?}");
    let before = snapshot::take(&host.etc(""));
    let two_runs = host.booted();
    host.reboot();
    assert_eq!(snapshot::take(&two_runs.at("etc")), before);
    assert_eq!(one["deployment"]["commit"], host.booted().id().0);
    assert_ne!(one["generation"], host.booted().generation(), "it is a generation of its own");
    ensure_is(&host, "one", "two");
    assert_eq!(host.read_etc("late.conf").as_deref(), Some("written since"));
    assert_eq!(host.core_keys(), "ssh-ed25519 AAAA two\n", "keys never go back");
    host.ensure_whole();
    assert_eq!(host.status()["blocked"]["config"], "rendered-two");
    let refused = host.apply(&two, Some(&image));
    assert!(refused.code == Some(1) && refused.stderr.contains("flameholder retry"), "{refused:?}");
    assert!(!host.is_staged());
    host.must(["flameholder", "retry"]);
    assert_eq!(host.status()["blocked"], Value::Null);
    host.update(&two, Some(&image));
    ensure_is(&host, "two", "one");
    host.ensure_whole();
}

#[test]
fn another_configuration_releases_what_is_held() {
    let host = settled("one");
    let two = host.config(whole("two").json());
    host.update(&two, None);
    ensure_asked(&host.run(["flameholder", "rollback"]));
    host.reboot();
    assert_eq!(host.status()["blocked"]["config"], "rendered-two");
    let three = host.config(whole("three").json());
    host.update(&three, None);
    assert_eq!(host.status()["blocked"], Value::Null);
    ensure_is(&host, "three", "one");
    host.ensure_whole();
}

#[test]
fn there_is_nothing_before_the_first_generation() {
    let host = settled("one");
    let outcome = host.run(["flameholder", "rollback"]);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("no other deployment"), "{outcome:?}");
    assert!(!host.is_staged());
    let small = host.config(Config::new("small", &[("/etc/a", "a")]).json());
    host.update(&small, None);
    assert_eq!(host.read_etc("app/a.conf"), None);
    host.ensure_whole();
}
