//! Generations without an image, updates without a reboot, and replacing a staged generation.

use osimage::Os;
use serde_json::Value;
use testbed::booted::config::{Config, assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked, confirmed_host, record};
use testbed::model::snapshot;

/// A file that changes without a reboot.
const LIVE: &str = "/etc/nmstate/openshift/cluster.yml";

const FRAGMENT: &str = "/etc/flameholder/config.d/50-disruption.toml";

fn plan(host: &Host, desired: &str) -> Value {
    let printed = host.run_ok(["flameholder", "plan", "--desired", desired, "-o", "json"]);
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn files_update_needs_neither_registry_nor_image() {
    let host = confirmed_host("one");
    let (commit, serial) = host.booted().id();
    host.remove_media();
    let two = host.config(full_config("two").json());
    let boot = host.update(&two, None);
    assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_eq!(host.booted().id(), (commit, serial + 1));
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn live_update_is_followed_by_rebooting_update() {
    let host = confirmed_host("one");
    let before = host.booted();
    let live = host.config(full_config("one").file_with_mode(LIVE, 0o644, "live").json());
    let outcome = host.apply(&live, None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("no reboot is needed"), "{outcome:?}");
    assert_eq!(host.read_etc("nmstate/openshift/cluster.yml").as_deref(), Some("live"));
    assert_eq!((host.is_staged(), host.default()), (false, before.clone()));
    host.assert_no_drift();
    let again = host.apply(&live, None);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to do"), "{again:?}");
    // The boot entry still names this generation.
    let boot = host.reboot();
    assert!(!boot.activate.stdout.contains("not made by flameholder"), "{boot:?}");
    host.assert_no_drift();
    let two = host.config(full_config("two").file_with_mode(LIVE, 0o644, "staged").json());
    host.update(&two, None);
    assert_config(&host, "two", "one");
    assert_eq!(host.read_etc("nmstate/openshift/cluster.yml").as_deref(), Some("staged"));
    assert_eq!(std::fs::read_to_string(before.at("etc/nmstate/openshift/cluster.yml")).unwrap(), "live");
    host.assert_no_drift();
}

#[test]
fn rule_of_the_hosts_settings_takes_the_place_of_a_reboot() {
    let host = confirmed_host("one");
    let rules = "[[disruption.path]]\npath = \"/etc/chrony.conf\"\nactions = [\"none\"]\n";
    let config = |text: &str| {
        full_config("one").file_with_mode(FRAGMENT, 0o644, rules).file_with_mode(
            "/etc/chrony.conf",
            0o644,
            text,
        )
    };
    // The rule is not on the host yet.
    let first = host.config(config("first").json());
    assert_eq!(plan(&host, &first)["rebootRequired"], true);
    host.update(&first, None);
    let second = host.config(config("second").json());
    let plan = plan(&host, &second);
    assert_eq!((&plan["rebootRequired"], &plan["drain"]), (&false.into(), &false.into()), "{plan}");
    let outcome = host.apply(&second, None);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("no reboot is needed"), "{outcome:?}");
    assert_eq!(host.read_etc("chrony.conf").as_deref(), Some("second"));
    host.assert_no_drift();
}

#[test]
fn staged_generation_is_replaced_by_another() {
    let host = confirmed_host("one");
    let [two, three] = ["two", "three"].map(|text| host.config(full_config(text).json()));
    let never = |config: &str| host.run_ok(["flameholder", "apply", "--desired", config, "--locked"]);
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
    assert_eq!(staged(&host), first, "a second call stages nothing");
    let output = never(&three);
    assert!(output.contains("rendered-three"), "{output}");
    let second = staged(&host);
    assert_eq!((second.0, &second.1), (1, &Value::from("rendered-three")));
    assert_ne!(second.2, first.2);
    host.stage_update(&three, None);
    assert_eq!(staged(&host).2, second.2, "the staged deployment is unlocked, not staged again");
    host.reboot();
    assert_config(&host, "three", "two");
    host.assert_no_drift();
}

#[test]
fn applying_running_config_discards_staged_generation() {
    let host = confirmed_host("one");
    let [one, two] = ["one", "two"].map(|text| host.config(full_config(text).json()));
    host.stage_update(&two, None);
    let outcome = host.apply(&one, None);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("nothing to do"), "{outcome:?}");
    assert!(!host.is_staged());
    assert_eq!(host.status()["pending"], Value::Null);
    let before = host.booted();
    host.reboot();
    assert_eq!(host.booted(), before);
    assert_config(&host, "one", "two");
    host.assert_no_drift();
}

#[test]
fn generation_never_unlocked_is_staged_again() {
    let host = confirmed_host("one");
    let two = host.config(full_config("two").json());
    host.run_ok(["flameholder", "apply", "--desired", &two, "--locked"]);
    let before = host.booted();
    let boot = host.reboot();
    assert_eq!(host.booted(), before);
    assert!(boot.recover.stdout.contains("before the generation was unlocked"), "{boot:?}");
    assert_eq!(host.status()["pending"]["failure"]["kind"], "not-unlocked");
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn rollback_deploys_old_commit_again() {
    let host = confirmed_host("one");
    let (one, two) = (record(&host.booted()), host.config(full_config("two").json()));
    let image = host.image(&Os::new(3));
    host.update(&two, Some(&image));
    assert_config(&host, "two", "one");
    host.write_etc("late.conf", "written since");
    let outcome = host.run(["flameholder", "rollback"]);
    assert_unlocked(&outcome);
    let kept = "kept as now, although different in the previous deployment:\n  /etc/late.conf\n";
    assert!(outcome.stdout.contains(kept), "{outcome:?}");
    let before = snapshot::take(&host.etc(""));
    let two_runs = host.booted();
    host.reboot();
    assert_eq!(snapshot::take(&two_runs.at("etc")), before);
    assert_eq!(one["deployment"]["commit"], host.booted().id().0);
    assert_ne!(one["generation"], host.booted().generation(), "the rollback is a new generation");
    assert_config(&host, "one", "two");
    assert_eq!(host.read_etc("late.conf").as_deref(), Some("written since"));
    assert_eq!(host.core_keys(), "ssh-ed25519 AAAA two\n", "keys never go back");
    host.assert_no_drift();
    assert_eq!(host.status()["blocked"]["config"], "rendered-two");
    let refused = host.apply(&two, Some(&image));
    assert!(refused.code == Some(1) && refused.stderr.contains("flameholder retry"), "{refused:?}");
    assert!(!host.is_staged());
    host.run_ok(["flameholder", "retry"]);
    assert_eq!(host.status()["blocked"], Value::Null);
    host.update(&two, Some(&image));
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

#[test]
fn another_config_ends_the_block() {
    let host = confirmed_host("one");
    // With a disk of its own for `/var`, where the objects of the generation before are.
    host.move_var_out_of_stateroot();
    let two = host.config(full_config("two").json());
    host.update(&two, None);
    assert_unlocked(&host.run(["flameholder", "rollback"]));
    host.reboot();
    assert_eq!(host.status()["blocked"]["config"], "rendered-two");
    let three = host.config(full_config("three").json());
    host.update(&three, None);
    assert_eq!(host.status()["blocked"], Value::Null);
    assert_config(&host, "three", "one");
    host.assert_no_drift();
}

#[test]
fn rollback_of_first_generation_is_refused() {
    let host = confirmed_host("one");
    let outcome = host.run(["flameholder", "rollback"]);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("no other deployment"), "{outcome:?}");
    assert!(!host.is_staged());
    let small = host.config(Config::new("small", &[("/etc/a", "a")]).json());
    host.update(&small, None);
    assert_eq!(host.read_etc("app/a.conf"), None);
    host.assert_no_drift();
}

#[test]
fn superseded_stagings_leave_neither_objects_nor_images() {
    let host = confirmed_host("one");
    let counts = |host: &Host| {
        let objects = std::fs::read_dir(host.var("lib/flameholder/objects")).unwrap().count();
        let refs = host.run_ok(["ostree", "refs", "--repo=/sysroot/ostree/repo"]);
        let images = refs.lines().filter(|name| name.starts_with("ostree/container/image/")).count();
        (objects, images)
    };
    let staged = |number: u32| {
        let config = host.config(full_config(&format!("staged-{number}")).json());
        host.stage_update(&config, Some(&host.image(&Os::new(10 + number))));
        counts(&host)
    };
    let first = staged(0);
    for number in 1..4 {
        assert_eq!(staged(number), first, "after {number} superseded stagings");
    }
    host.reboot();
    host.assert_no_drift();
}
